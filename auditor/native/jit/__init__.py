"""Kernels that the tree compiles at run time."""
