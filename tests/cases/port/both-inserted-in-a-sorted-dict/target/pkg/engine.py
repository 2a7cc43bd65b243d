TABLE = {
    "alpha": 1,
    "beta": 2,
    "delta": 4,
    "kappa": 9,
    "zeta": 5,
}
