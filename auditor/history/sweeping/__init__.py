"""Facts about every commit of a range, one line a commit.

``full`` audits each tree. ``quick`` reads only what changed: conditions are cut out of the pieces of a file
that mention a predicate, and are worth something by Kleene's logic over what the predicates are worth.
"""
