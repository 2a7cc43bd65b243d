"""The part of the patch manager that touches a disk: targets, transactions, what is applied, repair."""
