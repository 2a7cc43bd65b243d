def load(path):
    a = read(path)
    b = check(a)
    return b
