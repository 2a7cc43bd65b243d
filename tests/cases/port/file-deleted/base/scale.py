def rows(n):
    return n * 2


def limit():
    return 8
