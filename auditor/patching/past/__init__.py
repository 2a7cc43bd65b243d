"""What the history of the upstream says of a patch: since when, why not any more, and whose commit."""
