import os
import sys


def size(a):
    # one page
    pages = a + 7
    half = pages * 2
    return half
