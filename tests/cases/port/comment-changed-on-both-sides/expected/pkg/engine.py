# Three at a time.
SIZE = 1
