def load(path):
    return Reader(path).read_all()
