def first(x):
    return x


def second(x):
    return x
