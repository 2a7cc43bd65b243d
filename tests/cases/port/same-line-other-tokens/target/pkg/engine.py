def choose(arch, size):
    if arch >= 90 and size > 8:
        return "fast"
    return "slow"
