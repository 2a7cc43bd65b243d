"""Diffs as bytes: read, written, and held against contents."""
