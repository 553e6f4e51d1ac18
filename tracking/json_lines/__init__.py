"""Files of JSON lines: how they are read and written, the journal, and packed statistics."""
