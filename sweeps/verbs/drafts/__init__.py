"""The verb ``init`` for a command: it writes a first definition, and shows what became of what."""
