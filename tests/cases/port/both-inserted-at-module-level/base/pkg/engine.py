LIMIT = 4


def last():
    return LIMIT
