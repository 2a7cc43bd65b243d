def load(mode, buffer, pages):
    if mode == "kernel":
        fast_copy(buffer, pages, 1)
    else:
        plain_copy(buffer, pages, 2)
