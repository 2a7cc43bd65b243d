"""Kernels that a tree declares in a registry of its own."""
