from pkg.kernels import (
    attend,
    gather,
    scatter,
)

TABLE = [attend, gather, scatter]
