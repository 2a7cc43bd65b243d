def make():
    # compute is slow
    value = compute(
        first,
        second,
        third,
        mode="a",
    )
    return value
