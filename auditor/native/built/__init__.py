"""Compiled kernels: which device code a shared object, a wheel or an installed copy holds."""
