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

from sweeps.task import Problem
from transformer.config import DataConfig, ModelConfig
from transformer.data import vocabulary

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

    def first(self, size: int) -> "ParallelSet":
        """The first ``size`` pairs, or all of them if there are fewer."""
        return ParallelSet(self.source.first(size), self.target.first(size))

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


def length_problems(prepared: Prepared, model: ModelConfig, data: DataConfig) -> Iterator[Problem]:
    """Texts too long for the position tables: most of train, or any evaluated sentence, since none may be dropped."""
    most, train = model.max_positions, np.sort(prepared.pairs("train").longest_sides)
    fit, least = int((train <= most).sum()), ceil(len(train) * LEAST_SHARE)
    if fit < least:
        (left_out,) = PairCounts(fit, prepared.blank, len(train) - fit).notices(most)
        allowed = f"must be at least {train[least - 1]}, which keeps a tenth of them"
        yield Problem("model.max_positions", f"is {most}; {left_out}", allowed)
    for name in prepared.evaluation_sets:
        pairs = prepared.pairs(name)
        if (longest := int(pairs.longest_sides.max())) > most:
            found = f"is {most}; {_longest(pairs, getattr(data, name, None), name)} has {longest} pieces"
            yield Problem("model.max_positions", found, f"must be at least {longest}, the longest sentence of {name}")


def _longest(pairs: ParallelSet, files: list[str] | None, name: str) -> str:
    """Where the longest sentence of a set is."""
    line = int(pairs.longest_sides.argmax())
    in_target = pairs.target.lengths[line] > pairs.source.lengths[line]
    return f"{files[in_target]}:{line + 1}" if files else f"a sentence of {name}"
