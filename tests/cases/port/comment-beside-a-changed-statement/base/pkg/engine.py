import os


def size(a):
    # one page
    pages = a + 1
    half = pages * 2
    return half
