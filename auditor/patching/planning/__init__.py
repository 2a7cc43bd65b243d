"""What becomes of a patchset on a tree, in memory, and the lock that pins it."""
