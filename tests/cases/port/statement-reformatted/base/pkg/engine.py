def make():
    value = compute(first, second, third, mode="a")
    return value
