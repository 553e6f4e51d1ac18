"""The text of a corpus, copied to the folder where it is prepared: checked there, then read as often as needed.

So the pieces are made of the very bytes that were hashed, and no step needs the whole text in memory.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from transformer.data.array_file import ArrayFile
from transformer.data.corpora import Text
from transformer.data.left_out import refuse_incomplete
from transformer.data.text_file import SentencePair
from transformer.data.vocabulary import SAMPLED_ABOVE, Vocabulary
from transformer.faults import Fault, FaultyError, raise_any

T = TypeVar("T")


Told = Callable[[str, float | None], None]
"""Called with what is being done, and the share of it that is done; None if that is unknown."""


def untold(step: str, done: float | None) -> None:
    """For callers that show nothing."""


BATCH = 10_000  # lines
SIDES = ("source", "target")


@dataclass(frozen=True)
class WorkingCopy:
    """``<set>.<side>.txt`` in ``folder``; pairs of train with a blank side are left out."""

    folder: Path

    def take(self, text: Text, told: Told) -> int:
        """Copy every set; the number of training pairs left out. Raises FaultyError with the faults of all sets."""
        faults: list[Fault] = []
        blank = 0
        for name, pairs in text.sets.items():
            try:
                blank += self._take_set(name, pairs, lambda: told("reading", text.share_read))
            except FaultyError as error:
                faults += error.faults
        raise_any(faults)
        return blank

    def lines_to_learn(self) -> Iterator[str]:
        """Training pairs, source and target in turn: all of them up to ``SAMPLED_ABOVE`` bytes, of more every n-th."""
        paths = [self._path("train", side) for side in SIDES]
        every = -(-sum(path.stat().st_size for path in paths) // SAMPLED_ABOVE)
        sides = (chain.from_iterable(lines for lines, _ in _batches(path)) for path in paths)
        return chain.from_iterable(islice(zip(*sides, strict=True), 0, None, every))

    def encode(self, name: str, vocabulary: Vocabulary, told: Told) -> None:
        """Write the pieces of a set, and where each sentence begins."""
        for number, side in enumerate(SIDES):
            for share in self._encode_side(f"{name}.{side}", vocabulary):
                told(f"encoding {name}", (number + share) / len(SIDES))

    def remove(self, name: str) -> None:
        """Remove the text of a set."""
        for side in SIDES:
            self._path(name, side).unlink()

    def _path(self, name: str, side: str) -> Path:
        return self.folder / f"{name}.{side}.txt"

    def _take_set(self, name: str, pairs: Iterable[SentencePair], told: Callable[[], None]) -> int:
        """The number of pairs that are left out."""
        given = complete = 0
        with self._path(name, "source").open("wb") as source, self._path(name, "target").open("wb") as target:
            for batch in _in_batches(pairs):
                whole = [pair for pair in batch if pair[0].strip() and pair[1].strip()]
                given, complete = given + len(batch), complete + len(whole)
                kept = whole if name == "train" else batch
                source.write("".join(f"{pair[0]}\n" for pair in kept).encode("utf-8"))
                target.write("".join(f"{pair[1]}\n" for pair in kept).encode("utf-8"))
                told()
        refuse_incomplete(name, complete, given)
        return given - complete if name == "train" else 0

    def _encode_side(self, stem: str, vocabulary: Vocabulary) -> Iterator[float]:
        """Yields the share that is done."""
        end = 0
        with (
            ArrayFile(self.folder / f"{stem}.npy", np.int32) as pieces,
            ArrayFile(self.folder / f"{stem}.offsets.npy", np.int64) as offsets,
        ):
            offsets.append([end])
            for lines, share in _batches(self.folder / f"{stem}.txt"):
                encoded = vocabulary.encode(lines)
                ends = end + np.cumsum([len(sentence) for sentence in encoded])
                pieces.append(list(chain.from_iterable(encoded)))
                offsets.append(ends)
                end = int(ends[-1])
                yield share


def _batches(path: Path) -> Iterator[tuple[list[str], float]]:
    """Some lines of a copy at a time, without their ends, and the share of the file read so far."""
    size = path.stat().st_size
    with path.open("rb") as file:
        for lines in _in_batches(file):
            yield b"".join(lines).decode("utf-8").split("\n")[:-1], file.tell() / size


def _in_batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch
