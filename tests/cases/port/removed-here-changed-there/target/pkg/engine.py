def load(path):
    a = read(path)
    b = check(a, strict=True)
    return b
