"""Text into binary pieces, once: ``<paths.data>/prepared/<fingerprint>/``, safe when many processes ask at once."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from transformer.config import DataConfig, ModelConfig, digest
from transformer.data import vocabulary
from transformer.data.corpora import Pair, corpus
from transformer.schema import Problem, RefusedError

VERSION = 1
"""Raised when the same text would be prepared into other pieces."""


def fingerprint(data: DataConfig) -> str:
    """SHA-256 of what was declared: corpus, preparation, vocabulary size. Never of the prepared output."""
    return digest(
        {
            "corpus": {"name": data.name, **corpus(data).declared(data)},
            "languages": [data.source, data.target],
            "vocabulary": {"size": data.vocab_size, **vocabulary.OPTIONS},
            "preparation": VERSION,
        }
    )


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

    @property
    def vocabulary_path(self) -> Path:
        return self.folder / "vocabulary.model"

    @property
    def vocabulary(self) -> vocabulary.Vocabulary:
        return vocabulary.Vocabulary(self.vocabulary_path)

    @property
    def judged_sets(self) -> list[str]:
        """Every set but train, dev first."""
        names: list[str] = json.loads((self.folder / "sets.json").read_text())
        return [name for name in names if name != "train"]

    def pairs(self, set_name: str) -> ParallelSet:
        return ParallelSet(*(self._sentences(set_name, side) for side in ("source", "target")))

    def references(self, set_name: str) -> list[str]:
        """The target text as it was given, for BLEU."""
        return self._text(set_name, "target")

    def sources(self, set_name: str) -> list[str]:
        """The source text as it was given."""
        return self._text(set_name, "source")

    def _text(self, set_name: str, side: str) -> list[str]:
        text = (self.folder / f"{set_name}.{side}.txt").read_bytes().decode("utf-8")
        return text.split("\n")[:-1]  # no other character ends a line

    def _sentences(self, set_name: str, side: str) -> Sentences:
        stem = self.folder / f"{set_name}.{side}"
        return Sentences(np.load(f"{stem}.npy", mmap_mode="r"), np.load(f"{stem}.offsets.npy"))


def prepared_folder(folder: Path, data_fingerprint: str) -> Path:
    """Where under ``paths.data`` the prepared corpus lies."""
    return folder / "prepared" / data_fingerprint[:16]


def prepare(data: DataConfig, folder: Path) -> Prepared:
    """The prepared corpus under ``folder``, made now unless it is there; refused text leaves nothing behind."""
    target = prepared_folder(folder, fingerprint(data))
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.is_dir():
        with FileLock(f"{target}.lock"):
            if not target.is_dir():
                _make(data, target, folder / "downloads")
    return Prepared(target)


def check_lengths(prepared: Prepared, model: ModelConfig) -> list[Problem]:
    """What does not fit the position tables: all of train, or any sentence to be judged, which may not be dropped."""
    problems = []
    shortest = int(prepared.pairs("train").longest_sides.min())
    if shortest > model.max_positions:
        allowed = f"must be at least {shortest}, the shortest pair of train"
        problems.append(Problem("model.max_positions", f"is {model.max_positions}", allowed))
    for name in prepared.judged_sets:
        longest = int(prepared.pairs(name).longest_sides.max())
        if longest > model.max_positions:
            allowed = f"must be at least {longest}, the longest sentence of {name}"
            problems.append(Problem("model.max_positions", f"is {model.max_positions}", allowed))
    return problems


def _make(data: DataConfig, target: Path, downloads: Path) -> None:
    """Write into a folder beside ``target`` and rename it: what bears the final name is whole."""
    sets = {name: pairs for name, pairs in corpus(data).load(data, downloads).items() if pairs}
    sets["train"] = [(s, t) for s, t in sets["train"] if s.strip() and t.strip()]
    if not sets["train"]:
        raise RefusedError([Problem("data.train", "is empty", "must hold at least one sentence pair")])
    workshop = Path(tempfile.mkdtemp(prefix=target.name, dir=target.parent))
    workshop.chmod(0o755)  # mkdtemp's 0700 would hide the data from colleagues
    try:
        model = vocabulary.build((line for pair in sets["train"] for line in pair), data.vocab_size)
        (workshop / "vocabulary.model").write_bytes(model)
        vocab = vocabulary.Vocabulary(workshop / "vocabulary.model")
        for name, pairs in sets.items():
            _write_set(workshop, name, pairs, vocab)
        (workshop / "sets.json").write_text(json.dumps(list(sets)))
        os.rename(workshop, target)  # noqa: PTH104 - atomic, and never onto an existing folder
    except BaseException:
        shutil.rmtree(workshop, ignore_errors=True)
        raise


def _write_set(folder: Path, name: str, pairs: list[Pair], vocab: vocabulary.Vocabulary) -> None:
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        _write_sentences(folder / f"{name}.{side}", vocab.encode(list(lines)))
        if name != "train":
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{side}.txt").write_bytes(text.encode("utf-8"))


def _write_sentences(stem: Path, encoded: Iterable[list[int]]) -> None:
    sentences = Sentences.of(encoded)
    np.save(f"{stem}.npy", sentences.pieces)
    np.save(f"{stem}.offsets.npy", sentences.offsets)
