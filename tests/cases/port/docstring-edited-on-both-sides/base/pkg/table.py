def load(path):
    """Read a table.

    Blank rows are dropped.
    Set TABLE_STRICT=1 to refuse them.
    """
    return rows(path)
