"""Whether a patched tree is sound, by levels that need no GPU."""
