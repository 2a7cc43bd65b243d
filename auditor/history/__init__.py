"""Two audits compared, and what changed along the commits of a range."""
