ORDER = [
    "triton",
    "flash",
    "native",
    "cutlass",
]
