"""A patch carried to another tree, by the cheapest proof that holds."""
