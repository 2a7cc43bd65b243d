"""Triton kernels: listed, compiled ahead of time, and what a kernel comes to on a target."""
