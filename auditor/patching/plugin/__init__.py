"""A patchset as an installed package that replaces functions of the project when it starts.

:mod:`express` says which changes of a tree are replaced functions and added names, and why others are not;
:mod:`package` writes the package; :mod:`runtime` is the code in it, which imports nothing of this project.
"""
