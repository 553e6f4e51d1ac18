"""Text into binary pieces in a folder, and that folder read again."""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from transformer.config import DataConfig
from transformer.data import vocabulary
from transformer.data.corpora import Text, corpus
from transformer.data.working_copy import Told, WorkingCopy, untold
from transformer.faults import Fault, FaultyError, raise_any

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


def prepare(data: DataConfig, folder: Path, told: Told = untold) -> None:
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


def _write(data: DataConfig, planned: dict[str, object], text: Text, copy: WorkingCopy, told: Told) -> None:
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
