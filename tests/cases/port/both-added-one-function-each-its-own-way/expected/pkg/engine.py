LIMIT = 4


def width(x, y):
    return x * y
