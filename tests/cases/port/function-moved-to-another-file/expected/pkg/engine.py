import math

from pkg.blocks import pick_block


def other(value):
    return math.sqrt(value) + pick_block(1, 2, 3)
