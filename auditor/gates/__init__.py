"""From files to the report of an audit: gates, their arms, verdicts, and reports that are kept."""
