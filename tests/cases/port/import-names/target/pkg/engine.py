from pkg.kernels import (
    attend,
    gather,
    pad,
    scatter,
)

OTHER = pad
TABLE = [attend, gather, scatter]
