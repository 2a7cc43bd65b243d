"""On which targets a function of the audited Python can be entered."""
