"""The native sources of a tree: its builds, their macros, and which build is loaded."""
