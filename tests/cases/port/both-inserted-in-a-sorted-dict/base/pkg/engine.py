TABLE = {
    "alpha": 1,
    "beta": 2,
    "delta": 4,
    "zeta": 5,
}
