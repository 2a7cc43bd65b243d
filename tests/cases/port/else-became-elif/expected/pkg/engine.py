def load(mode, buffer, pages):
    if mode == "kernel":
        fast_copy(buffer, pages, 1)
    elif mode == "direct":
        if buffer.flat:
            plain_copy(buffer, pages, 2)
        else:
            paged_copy(buffer, pages)
    else:
        raise ValueError(f"unknown mode {mode}")
