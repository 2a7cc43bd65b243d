def first(x):
    return x + 2


def second(x):
    y = x * 2
    z = y + 1
    return y + z
