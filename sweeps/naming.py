"""Which of the words on a command line say which study is meant."""

NAMING = ("data=", "scale=", "sweep.name=", "paths.", "tracking")


def naming(words: list[str] | None) -> list[str]:
    """Those of the words that say which study is meant, and where it lies."""
    return [word for word in words or [] if word.startswith(NAMING)]
