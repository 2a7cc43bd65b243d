def choose(size):
    limit = 8
    return size > limit
