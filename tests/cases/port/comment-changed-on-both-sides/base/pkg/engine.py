# One at a time.
SIZE = 1
