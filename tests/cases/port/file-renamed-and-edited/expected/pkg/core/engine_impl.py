import math


def pick_block(width, height, limit):
    best = 1
    for block in (16, 32, 64, 128):
        if block * width * height <= limit:
            best = max(best, block)
    return best


def other(value):
    return math.sqrt(value) + 1
