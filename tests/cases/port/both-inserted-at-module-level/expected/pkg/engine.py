LIMIT = 4
DEPTH = 2
WIDTH = 8


def last():
    return LIMIT
