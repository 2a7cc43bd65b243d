def make(flag):
    value = compute(flag, 1)
    result = finish(value)
    return result
