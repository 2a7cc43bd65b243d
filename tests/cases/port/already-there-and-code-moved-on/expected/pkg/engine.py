import math

LIMIT = 12


def first(x):
    check(x)
    if x > LIMIT:
        raise ValueError(x)
    return math.floor(x)


def second(x):
    return -x
