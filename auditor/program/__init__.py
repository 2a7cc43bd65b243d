"""The audited tree as a program: modules, names and the three-valued evaluator."""
