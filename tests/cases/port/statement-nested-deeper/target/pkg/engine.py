def make(flag):
    if flag:
        value = compute(flag, 1)
        result = finish(value)
    else:
        result = None
    return result
