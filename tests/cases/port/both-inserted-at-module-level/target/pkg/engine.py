LIMIT = 4
DEPTH = 2


def last():
    return LIMIT
