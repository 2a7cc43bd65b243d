"""A patchset in the forms that other tools take."""
