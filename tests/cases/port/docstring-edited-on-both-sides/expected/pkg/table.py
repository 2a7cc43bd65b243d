def load(path):
    """Read a table.

    Blank rows and comments are dropped.
    Set TABLE_STRICT=0 to accept them.
    Note: files without rows are fine.
    """
    return rows(path)
