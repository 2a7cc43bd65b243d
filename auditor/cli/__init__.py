"""The commands: one module per verb. Parses words, calls the library, renders; holds no logic of its own.

Importing this package, or ``main`` and ``table``, costs next to nothing: ``--help`` and ``--version`` must
not pay for click, rich, git or the parsers.
"""
