"""The verb ``compare``: two trials, rows or studies, for a terminal and as JSON."""
