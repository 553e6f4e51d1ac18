"""Prepared text, pieces in a folder: writing it, reading it, and its check against a model.

The text is copied and checked first. No step needs all of it in memory.
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

from transformer.config import DataConfig, TrialConfig
from transformer.data.corpora import SentencePair, Sets, corpus
from transformer.data.text_notes import note_text
from transformer.data.vocabulary import SAMPLED_ABOVE, Vocabulary, build
from transformer.faults import Fault, FaultyError

Progress = Callable[[str, float | None], None]
"""Called with the current activity and its finished share, 0 to 1, or None if it is unknown."""
SETS = "sets.json"
"""The names of the sets, and the number of blank pairs."""
MANIFEST = "prepared.json"
"""Written once the folder is complete: the fingerprint of the data, and a hash of each file."""


@dataclass(frozen=True)
class Sentences:
    """Pieces of many sentences, end to end; sentence i is pieces[offsets[i]:offsets[i + 1]]."""

    pieces: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    @staticmethod
    def of(sentences: Iterable[npt.ArrayLike]) -> "Sentences":
        """The piece ids of each sentence, end to end."""
        arrays = [np.asarray(pieces, dtype=np.int32) for pieces in sentences]
        offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        return Sentences(np.concatenate([np.empty(0, np.int32), *arrays]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[np.int32]:
        return self.pieces[self.offsets[index] : self.offsets[index + 1]]

    def at(self, numbers: npt.NDArray[np.int64]) -> "Sentences":
        """The sentences with these numbers."""
        return Sentences.of(self[number] for number in numbers)

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
    def _description(self) -> dict[str, Any]:
        """The content of ``SETS``."""
        description: dict[str, Any] = json.loads((self.folder / SETS).read_text("utf-8"))
        return description

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the data, 64 hex digits."""
        manifest: dict[str, Any] = json.loads((self.folder / MANIFEST).read_text("utf-8"))
        return str(manifest["fingerprint"])

    @property
    def blank(self) -> int:
        """Number of training pairs without text on a side, which are left out."""
        return int(self._description["blank"])

    @property
    def evaluation_sets(self) -> list[str]:
        """Every set but train, dev first."""
        return [name for name in self._description["sets"] if name != "train"]

    @property
    def vocabulary_path(self) -> Path:
        """The SentencePiece model."""
        return self.folder / "vocabulary.model"

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary, loaded at each use."""
        return Vocabulary(self.vocabulary_path)

    @property
    def vocabulary_sha256(self) -> str:
        """The hash of the vocabulary, since SentencePiece versions differ on the same text."""
        return hashlib.sha256(self.vocabulary_path.read_bytes()).hexdigest()

    def pairs(self, set_name: str) -> ParallelSet:
        """The pieces of a set; they stay on disk until you use them."""
        source = self._sentences(set_name, "source")
        target = self._sentences(set_name, "target")
        return ParallelSet(source, target)

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
        pieces = np.load(self.folder / f"{set_name}.{side}.npy", mmap_mode="r")
        offsets = np.load(self.folder / f"{set_name}.{side}.offsets.npy")
        return Sentences(pieces, offsets)


@dataclass(frozen=True)
class PairCounts:
    """Training pairs: used, left out for a blank side, and left out for their length."""

    train: int
    blank: int
    too_long: int

    def notices(self, key: str, longest: int) -> Iterator[str]:
        """One notice for the user if any pairs are left out; ``key`` limits them to ``longest``."""
        unused = self.blank + self.too_long
        if not unused:
            return
        reasons = []
        if self.blank:
            reasons.append(f"{self.blank} blank")
        if self.too_long:
            reasons.append(f"{self.too_long} longer than {key} ({longest})")
        pairs = self.train + unused
        yield f"{unused} of {pairs} training pairs are left out: {', '.join(reasons)}"


LEAST_SHARE = 0.1
"""The share of training pairs that must fit; with fewer, the settings do not fit the text."""


def length_faults(prepared: Prepared, trial: TrialConfig) -> Iterator[Fault]:
    """Training pairs and evaluated sentences that are too long.

    It is a fault if most of train is too long, or any evaluated sentence, as none may be dropped.
    """
    yield from _train_length_faults(prepared, *trial.length_limit)
    for name in prepared.evaluation_sets:
        pairs = prepared.pairs(name)
        if int(pairs.longest_sides.max()) > trial.model.longest_line:
            yield _evaluated_length_fault(name, pairs, trial)


def _evaluated_length_fault(name: str, pairs: ParallelSet, trial: TrialConfig) -> Fault:
    """The longest sentence of a set does not fit: into learned positions, or into memory."""
    limit = trial.model.longest_line
    files = getattr(trial.data, name, None)
    place = _longest_sentence(pairs, files, name)
    longest = int(pairs.longest_sides.max())
    problem = f"{place} has {longest} pieces"
    if trial.model.positions == "learned":
        allowed = f"must be at least {longest}, the longest sentence of {name}"
        key = "model.max_positions"
        return Fault(key, f"is {limit}; {problem}", f"{allowed}, with learned positions")
    key = f"data.{name}" if files else "data"
    fix = "split the line, or raise model.max_positions"
    return Fault(key, problem, f"must have at most {limit} pieces; {fix}")


def _train_length_faults(prepared: Prepared, key: str, limit: int) -> Iterator[Fault]:
    """A fault if less than ``LEAST_SHARE`` of the training pairs fit the limit that ``key``
    sets."""
    lengths = np.sort(prepared.pairs("train").longest_sides)
    fitting = int((lengths <= limit).sum())
    least = ceil(len(lengths) * LEAST_SHARE)
    if fitting < least:
        counts = PairCounts(fitting, prepared.blank, len(lengths) - fitting)
        (notice,) = counts.notices(key, limit)
        allowed = f"must be at least {lengths[least - 1]}, which keeps a tenth of them"
        yield Fault(key, f"is {limit}; {notice}", allowed)


def _longest_sentence(pairs: ParallelSet, files: list[str] | None, name: str) -> str:
    """The place of a set's longest sentence: file and line, if ``files`` are source and target."""
    if not files:
        return f"a sentence of {name}"
    line = int(pairs.longest_sides.argmax())
    if len(files) == 1:  # the name of a set of sacreBLEU
        return f"{files[0]}:{line + 1}"
    source_file, target_file = files
    target_is_longer = pairs.target.lengths[line] > pairs.source.lengths[line]
    return f"{target_file if target_is_longer else source_file}:{line + 1}"


LINES_AT_ONCE = 10_000
BOTH_SIDES = ("source", "target")


def prepare(data: DataConfig, folder: Path, report: Progress) -> None:
    """Fill an empty folder, which ``Prepared`` reads.

    Downloads stay next to the folder, for later preparations. Raises FaultyError for text that
    cannot be used, or that changes meanwhile.
    """
    text = corpus(data)
    faults = list(text.faults(data))
    if faults:
        raise FaultyError(*faults)
    declared = text.declared(data)
    report("opening the text", None)
    sets = text.load(data, folder.parent / "downloads" / data.name)
    blank = copy_text(sets, folder, report)
    report("comparing the sets", None)
    note_text(folder, blank)
    if text.declared(data) != declared:
        problem = f"the text of data={data.name} changed while it was prepared"
        fix = "must stay the same meanwhile; run the command again"
        raise FaultyError(Fault("data", problem, fix))
    report("learning the vocabulary", None)
    path = folder / "vocabulary.model"
    path.write_bytes(build(lines_to_learn(folder), data.vocab_size, folder))
    for name in sets:
        _encode(name, folder, Vocabulary(path), report)
    for side in BOTH_SIDES:
        _text_path(folder, "train", side).unlink()
    description = {"sets": list(sets), "blank": blank["train"]}
    (folder / SETS).write_text(json.dumps(description), "utf-8")


def copy_text(sets: Sets, folder: Path, report: Progress) -> dict[str, int]:
    """Copy every set to ``<set>.<side>.txt``; returns each set's number of pairs with a blank side.

    Raises FaultyError with the faults of all sets.
    """
    faults = list[Fault]()
    blank = dict[str, int]()
    for name, pairs in sets.items():
        try:
            blank[name] = _copy_set(name, pairs, folder, report)
        except FaultyError as error:
            faults += error.faults
    if faults:
        raise FaultyError(*faults)
    return blank


def _copy_set(name: str, pairs: Iterable[SentencePair], folder: Path, report: Progress) -> int:
    """Copy a set, and return its number of pairs with a blank side; only train leaves them out.

    Raises FaultyError if every pair has a blank side.
    """
    total = 0
    blank = 0
    source_path = _text_path(folder, name, "source")
    target_path = _text_path(folder, name, "target")
    with (
        source_path.open("w", encoding="utf-8", newline="\n") as source_file,
        target_path.open("w", encoding="utf-8", newline="\n") as target_file,
    ):
        for source, target in pairs:
            has_text = bool(source.strip() and target.strip())
            total += 1
            if not has_text:
                blank += 1
            if total % LINES_AT_ONCE == 0:
                report(f"reading {name}", None)
            if has_text or name != "train":
                source_file.write(f"{source}\n")
                target_file.write(f"{target}\n")
    if blank == total:
        problem = f"has text on both sides in none of its {total} pairs"
        raise FaultyError(Fault(f"data.{name}", problem, "some pair must have text on both sides"))
    return blank


def lines_to_learn(folder: Path) -> Iterator[str]:
    """The lines of training pairs, source and target in turn.

    If there are more than ``SAMPLED_ABOVE`` bytes, only every n-th pair.
    """
    paths = [_text_path(folder, "train", side) for side in BOTH_SIDES]
    size = sum(path.stat().st_size for path in paths)
    step = -(-size // SAMPLED_ABOVE)
    pairs = zip(*(_lines(path) for path in paths), strict=True)
    return chain.from_iterable(islice(pairs, 0, None, step))


def _encode(name: str, folder: Path, vocabulary: Vocabulary, report: Progress) -> None:
    """Write the pieces of a set, and the offsets of its sentences."""
    for number, side in enumerate(BOTH_SIDES):
        pieces_file = _array_file(f"{folder / name}.{side}.npy", np.int32)
        offsets_file = _array_file(f"{folder / name}.{side}.offsets.npy", np.int64)
        with pieces_file as append_pieces, offsets_file as append_offsets:
            end = 0
            append_offsets([end])
            for lines, share in _batches(_text_path(folder, name, side)):
                encoded = vocabulary.encode(lines)
                ends = end + np.cumsum([len(sentence) for sentence in encoded])
                append_pieces(list(chain.from_iterable(encoded)))
                append_offsets(ends)
                end = int(ends[-1])
                report(f"encoding {name}", (number + share) / len(BOTH_SIDES))


def _text_path(folder: Path, name: str, side: str) -> Path:
    return folder / f"{name}.{side}.txt"


def _lines(path: Path) -> Iterator[str]:
    """The lines of a copy, without their ends."""
    for lines, _ in _batches(path):
        yield from lines


def _batches(path: Path) -> Iterator[tuple[list[str], float]]:
    """Some lines of a copy at a time, without their ends, and the share of the file read so far."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while lines := list(islice(file, LINES_AT_ONCE)):
            text = b"".join(lines).decode("utf-8")
            yield text.split("\n")[:-1], file.tell() / size


@contextmanager
def _array_file(path: str, dtype: npt.DTypeLike) -> Iterator[Callable[[npt.ArrayLike], None]]:
    """A context with a function that appends to an array on disk.

    The file gets the same bytes as from ``numpy.save``, which would need the array in memory.
    """
    length = 0

    def write_header() -> None:
        """NumPy leaves room in a header, so that it has the same size for every length."""
        description = {
            "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
            "fortran_order": False,
            "shape": (length,),
        }
        np.lib.format.write_array_header_1_0(file, description)

    def append(values: npt.ArrayLike) -> None:
        nonlocal length
        array = np.asarray(values, dtype)
        file.write(array.tobytes())
        length += len(array)

    with Path(path).open("wb") as file:
        write_header()
        yield append
        file.seek(0)
        write_header()
