def choose(arch, size):
    if arch >= 90 and size > 4:
        return "fast"
    return "slow"
