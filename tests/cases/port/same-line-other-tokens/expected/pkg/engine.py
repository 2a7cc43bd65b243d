def choose(arch, size):
    if (arch >= 90 or arch == 12) and size > 8:
        return "fast"
    return "slow"
