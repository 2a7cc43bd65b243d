from pkg.kernels import attend, gather

print(attend, gather)
