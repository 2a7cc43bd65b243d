ORDER = [
    "triton",
    "flash",
]
