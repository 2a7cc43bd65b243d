def first(x):
    return x + 1


def second(x):
    y = x * 2
    return y
