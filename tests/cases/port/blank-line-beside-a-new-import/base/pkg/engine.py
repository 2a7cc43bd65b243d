from pkg.kernels import attend

SIZE = 4
