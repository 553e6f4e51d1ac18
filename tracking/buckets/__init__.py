"""Scores of a set's samples in buckets: what they are grouped by, where the buckets end, each row's
scores and tests in them, and their table."""
