from pkg.kernels import attend, gather, pad

print(attend, gather)
print(pad, gather, gather)
