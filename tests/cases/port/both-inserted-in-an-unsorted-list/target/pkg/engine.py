ORDER = [
    "triton",
    "flash",
    "native",
]
