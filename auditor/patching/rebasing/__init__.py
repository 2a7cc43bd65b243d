"""A patchset moved to another base."""
