"""The verb ``plan``: its table, its costs in time and memory, and its lock."""
