"""The kernel gate: what a patchset's own kernels come to when they are compiled, without a GPU."""
