"""A few hundred sentences of eight letters: prepared, and translated for a score, in a tenth of a
second."""

import random
from pathlib import Path

LETTERS = [*"abcdefgh"]
FILES = [
    "data=files",
    *(f"data.{name}=[{name}.txt,{name}.txt]" for name in ("train", "dev", "test")),
]
TEXT = [*FILES, "data.vocab_size=272"]
"""The overrides that name it, in its folder."""


def sentences(size: int, seed: int) -> str:
    drawn = random.Random(seed)
    return "".join(
        " ".join(drawn.choices(LETTERS, k=drawn.randint(1, 8))) + "\n" for _ in range(size)
    )


def write_text(folder: Path) -> Path:
    for seed, (name, size) in enumerate((("train", 300), ("dev", 6), ("test", 6))):
        (folder / f"{name}.txt").write_text(sentences(size, seed))
    return folder
