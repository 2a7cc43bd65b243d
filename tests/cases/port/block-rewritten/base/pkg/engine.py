def load(path):
    data = open_file(path)
    table = parse(data, strict=False)
    return table
