"""Text into binary pieces in a folder, by way of a working copy that is checked there, then read as often as needed.

So the pieces are made of the very bytes that were hashed, and no step needs the whole text in memory.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from transformer.config import DataConfig
from transformer.data import vocabulary
from transformer.data.corpora import Text, corpus
from transformer.data.prepared import SETS, refuse_incomplete
from transformer.data.text_file import SentencePair
from transformer.data.vocabulary import SAMPLED_ABOVE, Vocabulary
from transformer.faults import Fault, FaultyError, raise_any

T = TypeVar("T")


Tell = Callable[[str, float | None], None]
"""Called with what is being done, and the share of it that is done; None if that is unknown."""


def untold(step: str, done: float | None) -> None:
    """For callers that show nothing."""


LINES_AT_ONCE = 10_000  # lines
BOTH_SIDES = ("source", "target")


@dataclass(frozen=True)
class WorkingCopy:
    """``<set>.<side>.txt`` in ``folder``; pairs of train with a blank side are left out."""

    folder: Path

    def take(self, text: Text, told: Tell) -> int:
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
        paths = [self._path("train", side) for side in BOTH_SIDES]
        every = -(-sum(path.stat().st_size for path in paths) // SAMPLED_ABOVE)
        sides = (chain.from_iterable(lines for lines, _ in _batches(path)) for path in paths)
        return chain.from_iterable(islice(zip(*sides, strict=True), 0, None, every))

    def encode(self, name: str, vocabulary: Vocabulary, told: Tell) -> None:
        """Write the pieces of a set, and where each sentence begins."""
        for number, side in enumerate(BOTH_SIDES):
            for share in self._encode_side(f"{name}.{side}", vocabulary):
                told(f"encoding {name}", (number + share) / len(BOTH_SIDES))

    def remove(self, name: str) -> None:
        """Remove the text of a set."""
        for side in BOTH_SIDES:
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
    while batch := list(islice(rest, LINES_AT_ONCE)):
        yield batch


def prepare(data: DataConfig, folder: Path, told: Tell = untold) -> None:
    """Fill an empty folder, which ``Prepared`` reads. Downloads are kept next to it, for other preparations.

    Raises FaultyError for text that cannot be used, or that changes meanwhile.
    """
    raise_any(corpus(data).faults(data))
    planned, downloads = corpus(data).declared(data), folder.parent / "downloads" / data.name
    try:
        told("opening the text", None)
        _write(data, planned, corpus(data).load(data, downloads), WorkingCopy(folder), told)
    except BaseException:
        for each in (downloads, downloads.parent):
            with suppress(OSError):  # it is not there, or not empty
                each.rmdir()
        raise


def _write(data: DataConfig, planned: dict[str, object], text: Text, copy: WorkingCopy, told: Tell) -> None:
    blank = copy.take(text, told)
    if text.declared() != planned:
        found = f"the text of data={data.name} changed while it was prepared"
        raise FaultyError(Fault("data", found, "must not change before it is prepared; run the command again"))
    told("learning the vocabulary", None)
    path = copy.folder / "vocabulary.model"
    path.write_bytes(vocabulary.build(copy.lines_to_learn(), data.vocab_size, copy.folder))
    for name in text.sets:
        copy.encode(name, vocabulary.Vocabulary(path), told)
    copy.remove("train")
    (copy.folder / SETS).write_text(json.dumps({"sets": list(text.sets), "blank": blank}), "utf-8")


class ArrayFile:
    """The same bytes as of ``numpy.save``, which would need the whole array; use it as a context manager."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self._file, self._dtype = path.open("wb"), np.dtype(dtype)
        self._length = 0
        self._write_header()

    def append(self, values: npt.ArrayLike) -> None:
        array = np.asarray(values, self._dtype)
        self._file.write(array.tobytes())
        self._length += len(array)

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._file.seek(0)
            self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        """NumPy leaves room in a header, so that it has the same size for every length."""
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._file, header)
