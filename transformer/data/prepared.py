"""Prepared text: pieces in a folder, how they are read, checked against a model's positions, and made.

Text is first copied and checked. No step needs all of it in memory.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from transformer.config import DataConfig, ModelConfig
from transformer.data.corpora import SentencePair, Sets, corpus
from transformer.data.text_notes import note_text
from transformer.data.vocabulary import SAMPLED_ABOVE, Vocabulary, build
from transformer.faults import Fault, FaultyError

Told = Callable[[str, float | None], None]
"""Called with the current activity, and the share that is done, or None if unknown."""
SETS = "sets.json"
"""The names of the sets, and the number of blank pairs."""
MANIFEST = "prepared.json"
"""Written once the folder is whole: the fingerprint of the data, and a hash of each file."""


@dataclass(frozen=True)
class Sentences:
    """Pieces of many sentences, end to end; sentence i is pieces[offsets[i]:offsets[i + 1]]."""

    pieces: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    @staticmethod
    def of(sentences: Iterable[list[int]]) -> "Sentences":
        """The piece ids of each sentence, end to end."""
        arrays = [np.asarray(pieces, dtype=np.int32) for pieces in sentences]
        offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        return Sentences(np.concatenate([np.empty(0, np.int32), *arrays]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[np.int32]:
        return self.pieces[self.offsets[index] : self.offsets[index + 1]]

    def at(self, places: npt.NDArray[np.int64]) -> "Sentences":
        """The sentences with these numbers."""
        chosen = [self[place] for place in places]
        offsets = np.cumsum([0, *map(len, chosen)], dtype=np.int64)
        return Sentences(np.concatenate([np.empty(0, np.int32), *chosen]), offsets)

    def first(self, size: int) -> "Sentences":
        """The first ``size`` sentences, or all of them if there are fewer."""
        offsets = self.offsets[: size + 1]
        return Sentences(self.pieces[: offsets[-1]], offsets)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Pieces of each sentence, end-of-sentence included."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class ParallelSet:
    """One set of a corpus: source and target pieces, sentence by sentence."""

    source: Sentences
    target: Sentences

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def longest_sides(self) -> npt.NDArray[np.int64]:
        """Pieces of the longer side of each pair."""
        return np.maximum(self.source.lengths, self.target.lengths)


@dataclass(frozen=True)
class Prepared:
    """A corpus in pieces on disk."""

    folder: Path

    @cached_property
    def _about(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / SETS).read_text("utf-8"))
        return found

    @property
    def fingerprint(self) -> str:
        """That of the data, 64 hex digits."""
        manifest: dict[str, Any] = json.loads((self.folder / MANIFEST).read_text("utf-8"))
        return str(manifest["fingerprint"])

    @property
    def blank(self) -> int:
        """Training pairs that were left out because a side is blank."""
        return int(self._about["blank"])

    @property
    def evaluation_sets(self) -> list[str]:
        """Every set but train, dev first."""
        return [name for name in self._about["sets"] if name != "train"]

    @property
    def vocabulary_path(self) -> Path:
        return self.folder / "vocabulary.model"

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.vocabulary_path)

    @property
    def vocabulary_sha256(self) -> str:
        """Distinguishes this vocabulary from one that another SentencePiece version makes of the same text."""
        return hashlib.sha256(self.vocabulary_path.read_bytes()).hexdigest()

    def pairs(self, set_name: str) -> ParallelSet:
        return ParallelSet(*(self._sentences(set_name, side) for side in ("source", "target")))

    def references(self, set_name: str) -> list[str]:
        """The original target text, for BLEU."""
        return self._text(set_name, "target")

    def sources(self, set_name: str) -> list[str]:
        """The original source text."""
        return self._text(set_name, "source")

    def _text(self, set_name: str, side: str) -> list[str]:
        text = (self.folder / f"{set_name}.{side}.txt").read_bytes().decode("utf-8")
        return text.split("\n")[:-1]  # split at newlines only

    def _sentences(self, set_name: str, side: str) -> Sentences:
        pieces, offsets = (self.folder / f"{set_name}.{side}.{kind}" for kind in ("npy", "offsets.npy"))
        return Sentences(np.load(pieces, mmap_mode="r"), np.load(offsets))


@dataclass(frozen=True)
class PairCounts:
    """Training pairs: used, and left out because a side is blank or longer than ``model.max_positions``."""

    train: int
    blank: int
    too_long: int

    def notices(self, max_positions: int) -> Iterator[str]:
        """The notice for the user, if any pairs are left out."""
        if left_out := self.blank + self.too_long:
            reasons = [f"{self.blank} blank"] * bool(self.blank)
            reasons += [f"{self.too_long} longer than model.max_positions ({max_positions})"] * bool(self.too_long)
            yield f"{left_out} of {self.train + left_out} training pairs are left out: {', '.join(reasons)}"


LEAST_SHARE = 0.1
"""The share of training pairs that must fit; with fewer, the settings do not fit the text."""


def length_faults(prepared: Prepared, model: ModelConfig, data: DataConfig) -> Iterator[Fault]:
    """Texts too long for the position tables: most of train, or any evaluated sentence, since none may be dropped."""
    most, train = model.max_positions, np.sort(prepared.pairs("train").longest_sides)
    fit, least = int((train <= most).sum()), ceil(len(train) * LEAST_SHARE)
    if fit < least:
        (left_out,) = PairCounts(fit, prepared.blank, len(train) - fit).notices(most)
        allowed = f"must be at least {train[least - 1]}, which keeps a tenth of them"
        yield Fault("model.max_positions", f"is {most}; {left_out}", allowed)
    for name in prepared.evaluation_sets:
        pairs = prepared.pairs(name)
        if (longest := int(pairs.longest_sides.max())) > most:
            found = f"is {most}; {_longest(pairs, getattr(data, name, None), name)} has {longest} pieces"
            yield Fault("model.max_positions", found, f"must be at least {longest}, the longest sentence of {name}")


def _longest(pairs: ParallelSet, files: list[str] | None, name: str) -> str:
    """Where the longest sentence of a set is."""
    line = int(pairs.longest_sides.argmax())
    in_target = int(pairs.target.lengths[line] > pairs.source.lengths[line])
    if not files:
        return f"a sentence of {name}"
    place = files[0] if len(files) == 1 else files[in_target]  # one name is that of a set of sacreBLEU
    return f"{place}:{line + 1}"


LINES_AT_ONCE = 10_000
BOTH_SIDES = ("source", "target")


def prepare(data: DataConfig, folder: Path, told: Told) -> None:
    """Fill an empty folder, which ``Prepared`` reads. Downloads are kept next to it, for other preparations.

    Raises FaultyError for text that cannot be used, or that changes meanwhile.
    """
    text = corpus(data)
    if faults := list(text.faults(data)):
        raise FaultyError(*faults)
    planned = text.declared(data)
    told("opening the text", None)
    sets = text.load(data, folder.parent / "downloads" / data.name)
    blank = copy_text(sets, folder, told)
    told("comparing the sets", None)
    note_text(folder, blank)
    if text.declared(data) != planned:
        found = f"the text of data={data.name} changed while it was prepared"
        raise FaultyError(Fault("data", found, "must stay the same meanwhile; run the command again"))
    told("learning the vocabulary", None)
    path = folder / "vocabulary.model"
    path.write_bytes(build(lines_to_learn(folder), data.vocab_size, folder))
    for name in sets:
        _encode(name, folder, Vocabulary(path), told)
    for side in BOTH_SIDES:
        _text(folder, "train", side).unlink()
    (folder / SETS).write_text(json.dumps({"sets": list(sets), "blank": blank["train"]}), "utf-8")


def copy_text(sets: Sets, folder: Path, told: Told) -> dict[str, int]:
    """Copy every set to ``<set>.<side>.txt``; of each set, the number of pairs with a blank side.

    Raises FaultyError with the faults of all sets.
    """
    faults, blank = list[Fault](), dict[str, int]()
    for name, pairs in sets.items():
        try:
            blank[name] = _copy_set(name, pairs, folder, told)
        except FaultyError as error:
            faults += error.faults
    if faults:
        raise FaultyError(*faults)
    return blank


def _copy_set(name: str, pairs: Iterable[SentencePair], folder: Path, told: Told) -> int:
    """The number of pairs with a blank side: only train leaves them out."""
    given = blank = 0
    paths = (_text(folder, name, side) for side in BOTH_SIDES)
    source, target = (path.open("w", encoding="utf-8", newline="\n") for path in paths)
    with source, target:
        for pair in pairs:
            whole = bool(pair[0].strip() and pair[1].strip())
            given, blank = given + 1, blank + (not whole)
            if given % LINES_AT_ONCE == 0:
                told(f"reading {name}", None)
            if whole or name != "train":
                source.write(f"{pair[0]}\n")
                target.write(f"{pair[1]}\n")
    if blank == given:
        found = f"has text on both sides in none of its {given} pairs"
        raise FaultyError(Fault(f"data.{name}", found, "some pair must have text on both sides"))
    return blank


def lines_to_learn(folder: Path) -> Iterator[str]:
    """Training pairs, source and target alternating; of more than ``SAMPLED_ABOVE`` bytes, every n-th pair."""
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
