from pkg.kernels import attend

LIMIT = 3
WIDTH = 2


def run(x):
    return attend(x)
