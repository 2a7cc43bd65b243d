"""Patchsets as they lie on disk: heads, order, versions, and what lint says of them."""
