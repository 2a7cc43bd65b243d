from pkg.kernels import attend, gather, pad

print(attend)
print(pad, gather, gather)
