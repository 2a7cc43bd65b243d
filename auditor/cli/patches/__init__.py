"""The verbs of ``patches``: one module each, and what several of them share."""
