"""Compiled kernels: which of them each target has, from the sources or from what was built."""
