"""Text into binary pieces in a folder, by way of a copy that is checked. No step needs the whole text in memory."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sweeps.task import Problem, RefusedError, Told
from transformer.config import DataConfig
from transformer.data import vocabulary
from transformer.data.corpora import Sets, corpus
from transformer.data.prepared import SETS
from transformer.data.text_file import SentencePair
from transformer.data.vocabulary import SAMPLED_ABOVE, Vocabulary

LINES_AT_ONCE = 10_000
BOTH_SIDES = ("source", "target")


def untold(step: str, done: float | None) -> None:
    """For callers that show nothing."""


def prepare(data: DataConfig, folder: Path, told: Told = untold) -> None:
    """Fill an empty folder, which ``Prepared`` reads. Downloads are kept next to it, for other preparations.

    Raises RefusedError for text that cannot be used, or that changes meanwhile.
    """
    text = corpus(data)
    if problems := list(text.problems(data)):
        raise RefusedError(problems)
    planned = text.declared(data)
    told("reading the text", None)
    sets = text.load(data, folder.parent / "downloads" / data.name)
    blank = copy_text(sets, folder)
    if text.declared(data) != planned:
        found = f"the text of data={data.name} changed while it was prepared"
        raise RefusedError([Problem("data", found, "must not change before it is prepared; run the command again")])
    told("learning the vocabulary", None)
    path = folder / "vocabulary.model"
    path.write_bytes(vocabulary.build(lines_to_learn(folder), data.vocab_size, folder))
    for name in sets:
        _encode(name, folder, Vocabulary(path), told)
    for side in BOTH_SIDES:
        _text(folder, "train", side).unlink()
    (folder / SETS).write_text(json.dumps({"sets": list(sets), "blank": blank}), "utf-8")


def copy_text(sets: Sets, folder: Path) -> int:
    """Copy every set to ``<set>.<side>.txt``; the number of training pairs left out, since a side of them is blank.

    Raises RefusedError with the problems of all sets.
    """
    problems, blank = list[Problem](), 0
    for name, pairs in sets.items():
        try:
            left_out = _copy_set(name, pairs, folder)
            blank += left_out if name == "train" else 0
        except RefusedError as error:
            problems += error.problems
    if problems:
        raise RefusedError(problems)
    return blank


def _copy_set(name: str, pairs: Iterable[SentencePair], folder: Path) -> int:
    """The number of pairs with a blank side: only train leaves them out."""
    given = blank = 0
    paths = (_text(folder, name, side) for side in BOTH_SIDES)
    source, target = (path.open("w", encoding="utf-8", newline="\n") for path in paths)
    with source, target:
        for pair in pairs:
            whole = bool(pair[0].strip() and pair[1].strip())
            given, blank = given + 1, blank + (not whole)
            if whole or name != "train":
                source.write(f"{pair[0]}\n")
                target.write(f"{pair[1]}\n")
    if blank == given:
        found = f"has text on both sides in none of its {given} pairs"
        raise RefusedError([Problem(f"data.{name}", found, "some pair must have text on both sides")])
    return blank


def lines_to_learn(folder: Path) -> Iterator[str]:
    """Training pairs, source and target in turn: all of them up to ``SAMPLED_ABOVE`` bytes, of more every n-th."""
    paths = [_text(folder, "train", side) for side in BOTH_SIDES]
    every = -(-sum(path.stat().st_size for path in paths) // SAMPLED_ABOVE)
    sides = (chain.from_iterable(lines for lines, _ in _batches(path)) for path in paths)
    return chain.from_iterable(islice(zip(*sides, strict=True), 0, None, every))


def _encode(name: str, folder: Path, vocabulary: Vocabulary, told: Told) -> None:
    """Write the pieces of a set, and where each sentence begins."""
    for number, side in enumerate(BOTH_SIDES):
        end, stem = 0, folder / f"{name}.{side}"
        with _array_file(f"{stem}.npy", np.int32) as pieces, _array_file(f"{stem}.offsets.npy", np.int64) as offsets:
            offsets([end])
            for lines, share in _batches(_text(folder, name, side)):
                encoded = vocabulary.encode(lines)
                ends = end + np.cumsum([len(sentence) for sentence in encoded])
                pieces(list(chain.from_iterable(encoded)))
                offsets(ends)
                end = int(ends[-1])
                told(f"encoding {name}", (number + share) / len(BOTH_SIDES))


def _text(folder: Path, name: str, side: str) -> Path:
    return folder / f"{name}.{side}.txt"


def _batches(path: Path) -> Iterator[tuple[list[str], float]]:
    """Some lines of a copy at a time, without their ends, and the share of the file read so far."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while lines := list(islice(file, LINES_AT_ONCE)):
            yield b"".join(lines).decode("utf-8").split("\n")[:-1], file.tell() / size


@contextmanager
def _array_file(path: str, dtype: npt.DTypeLike) -> Iterator[Callable[[npt.ArrayLike], None]]:
    """Appends to an array on disk: the same bytes as of ``numpy.save``, which would need the whole array."""
    length = 0

    def header() -> None:
        """NumPy leaves room in a header, so that it has the same size for every length."""
        shape = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(file, shape)

    def append(values: npt.ArrayLike) -> None:
        nonlocal length
        array = np.asarray(values, dtype)
        file.write(array.tobytes())
        length += len(array)

    with Path(path).open("wb") as file:
        header()
        yield append
        file.seek(0)
        header()
