"""The verbs of ``audit``: one module each, and what several of them share."""
