"""Text from its source to batches: corpora, vocabulary, prepared pieces."""
