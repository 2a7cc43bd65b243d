def choose(size):
    limit = 4
    return size > limit
