"""Patches: read, carried to a tree, proved, written to a target and taken back."""
