TABLE = {
    "alpha": 1,
    "beta": 2,
    "delta": 4,
    "epsilon": 8,
    "kappa": 9,
    "zeta": 5,
}
