def make(flag):
    if flag:
        value = compute(flag, 2)
        result = finish(value)
    else:
        result = None
    return result
