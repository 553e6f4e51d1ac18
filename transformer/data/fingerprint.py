"""What identifies prepared text. Every plan needs it, so it loads neither NumPy nor SentencePiece."""

from sweeps.task import added_later
from transformer.config import DataConfig, digest
from transformer.data.corpora import corpus
from transformer.data.pieces import OPTIONS

VERSION = 1
"""Increased whenever a code change prepares the same text into different pieces."""


def fingerprint(data: DataConfig) -> str:
    """SHA-256 of the current declaration: corpus, preparation, vocabulary size. It never covers the prepared output."""
    return fingerprint_of(data, corpus(data).declared(data))


def fingerprint_of(data: DataConfig, declared: dict[str, object]) -> str:
    """The same of a text that was declared by its corpus."""
    declares: dict[str, object] = {
        "corpus": {"name": data.name, **declared},
        "languages": [data.source, data.target],
        "vocabulary": {"size": data.vocab_size, **OPTIONS},
        "preparation": VERSION,
    }
    if options := added_later(data):
        declares["options"] = options
    return digest(declares)
