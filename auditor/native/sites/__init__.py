"""Places of the audited Python that reach an operator, and what the audit says of them."""
