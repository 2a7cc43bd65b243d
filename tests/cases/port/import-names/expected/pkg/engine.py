from pkg.kernels import (
    attend,
    gather,
    pad,
    quantize,
    scatter,
)

OTHER = pad
TABLE = [attend, gather, scatter]
EXTRA = quantize
