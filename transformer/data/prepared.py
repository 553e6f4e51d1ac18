"""Text in pieces, read from its folder; which pairs are left out, and whether the rest fits the model."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from transformer.config import DataConfig, ModelConfig
from transformer.data import vocabulary
from transformer.data.text_file import ONE_SENTENCE
from transformer.faults import Fault, FaultyError

SETS = "sets.json"
"""The names of the sets, and the number of blank pairs."""


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
    def vocabulary(self) -> vocabulary.Vocabulary:
        return vocabulary.Vocabulary(self.vocabulary_path)

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


LEAST_SHARE = 0.1
"""The share of training pairs that must remain; with fewer, the settings do not fit the text."""
ADVISED = 2048
"""The most positions that are ever advised; a longer line is hardly one sentence."""


@dataclass(frozen=True)
class PairCounts:
    """Training pairs: used, and left out because a side is blank or longer than ``model.max_positions``."""

    train: int
    blank: int
    too_long: int

    @property
    def given(self) -> int:
        return self.train + self.left_out

    @property
    def left_out(self) -> int:
        return self.blank + self.too_long

    def notices(self, max_positions: int) -> Iterator[str]:
        """The notice for the user, if any pairs are left out."""
        if self.left_out:
            reasons = [f"{self.blank} blank"] * bool(self.blank)
            reasons += [f"{self.too_long} longer than model.max_positions ({max_positions})"] * bool(self.too_long)
            yield f"{self.left_out} of {self.given} training pairs are left out: {', '.join(reasons)}"


def refuse_incomplete(name: str, complete: int, given: int) -> None:
    """Raises FaultyError if too few pairs of a set have text on both sides: of train a tenth, of others one."""
    least, words = (_least(given), "at least a tenth of the pairs") if name == "train" else (1, "some pair")
    if complete < least:
        found = f"has text on both sides in only {complete} of {given} pairs"
        raise FaultyError(Fault(f"data.{name}", found, f"{words} must have text on both sides"))


def too_few_fit(longest_sides: npt.NDArray[np.int64], blank: int, max_positions: int, longest: str) -> Iterator[Fault]:
    """A fault if ``max_positions`` leaves too few training pairs; ``longest`` describes the longest of them."""
    fit = int((longest_sides <= max_positions).sum())
    counts = PairCounts(fit, blank, len(longest_sides) - fit)
    least = _least(counts.given)
    if fit < least:
        needed = int(np.sort(longest_sides)[least - 1])
        found = f"is {max_positions}; {'; '.join(counts.notices(max_positions))}"
        allowed = f"must be at least {needed}, which keeps a tenth of them"
        if needed > ADVISED:
            allowed = f"{ONE_SENTENCE} {longest}; a tenth of the pairs has at most {needed}"
        yield Fault("model.max_positions", found, allowed)


def _least(given: int) -> int:
    """The number of pairs that must remain."""
    return max(1, ceil(given * LEAST_SHARE))


def check_lengths(prepared: Prepared, model: ModelConfig, data: DataConfig | None = None) -> list[Fault]:
    """Texts too long for the position tables: most of train, or any evaluated sentence, since none may be dropped.

    Lines are named by the files of ``data``.
    """
    train, most = prepared.pairs("train"), model.max_positions
    numbered = data if prepared.blank == 0 else None  # without blank pairs, the others have other numbers
    faults = list(too_few_fit(train.longest_sides, prepared.blank, most, _longest(train, "train", numbered)))
    for name in prepared.evaluation_sets:
        pairs = prepared.pairs(name)
        faults += _too_long(int(pairs.longest_sides.max()), _longest(pairs, name, data), name, most)
    return faults


def _too_long(longest: int, found: str, name: str, most: int) -> Iterator[Fault]:
    if longest > max(most, ADVISED):
        yield Fault(f"data.{name}", found, f"{ONE_SENTENCE} model.max_positions is {most}")
    elif longest > most:
        allowed = f"must be at least {longest}, the longest sentence of {name}"
        yield Fault("model.max_positions", f"is {most}; {found}", allowed)


def _longest(pairs: ParallelSet, name: str, data: DataConfig | None) -> str:
    """Where the longest sentence of a set is, and its length."""
    line, longest = int(pairs.longest_sides.argmax()), int(pairs.longest_sides.max())
    files = getattr(data, name, None) if data else None
    place = f"{files[int(pairs.target.lengths[line] == longest)]}:{line + 1}" if files else f"a sentence of {name}"
    return f"{place} has {longest} pieces"
