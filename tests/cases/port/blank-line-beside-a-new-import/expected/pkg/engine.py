from pkg.kernels import attend

from pkg.plan import stages

SIZE = 4
