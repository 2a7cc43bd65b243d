"""The figures of docs/benchmarks.md: a module a section (``sections.py``), run by ``scripts/bench.py``."""
