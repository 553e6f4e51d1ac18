"""Text into binary pieces, once: ``<paths.data>/prepared/<fingerprint>/``, safe when many processes prepare at once."""

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

from sweeps.processes.storage import at_place
from sweeps.task import Problem, RefusedError
from transformer.config import DataConfig
from transformer.data import vocabulary
from transformer.data.alone import alone, new_folders
from transformer.data.corpora import corpus
from transformer.data.fingerprint import fingerprint, fingerprint_of, prepared_folder
from transformer.data.manifest import PreparedManifest, damaged, read_manifest, sha256
from transformer.data.working_copy import Told, WorkingCopy, untold


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
    """A corpus in pieces on disk. Each file is checked against the manifest before use: RefusedError if it differs."""

    folder: Path

    @cached_property
    def manifest(self) -> PreparedManifest:
        return read_manifest(self.folder)

    @property
    def blank(self) -> int:
        """Training pairs that were left out because a side is blank."""
        return self.manifest.blank

    def check(self) -> None:
        """Check every file against its checksum, which takes a second per gigabyte. Raises RefusedError."""
        for name in self.manifest.files:
            self._file(name)

    @property
    def vocabulary_path(self) -> Path:
        return self._file("vocabulary.model")

    @property
    def vocabulary(self) -> vocabulary.Vocabulary:
        return vocabulary.Vocabulary(self.vocabulary_path)

    @property
    def vocabulary_sha256(self) -> str:
        """Distinguishes this vocabulary from one that another SentencePiece version makes of the same text."""
        return sha256(self.vocabulary_path)

    @property
    def evaluation_sets(self) -> list[str]:
        """Every set but train, dev first."""
        names: list[str] = json.loads(self._file("sets.json").read_text())
        return [name for name in names if name != "train"]

    def pairs(self, set_name: str) -> ParallelSet:
        return ParallelSet(*(self._sentences(set_name, side) for side in ("source", "target")))

    def references(self, set_name: str) -> list[str]:
        """The original target text, for BLEU."""
        return self._text(set_name, "target")

    def sources(self, set_name: str) -> list[str]:
        """The original source text."""
        return self._text(set_name, "source")

    def _text(self, set_name: str, side: str) -> list[str]:
        text = self._file(f"{set_name}.{side}.txt").read_bytes().decode("utf-8")
        return text.split("\n")[:-1]  # split at newlines only

    def _sentences(self, set_name: str, side: str) -> Sentences:
        pieces, offsets = self._file(f"{set_name}.{side}.npy"), self._file(f"{set_name}.{side}.offsets.npy")
        return Sentences(np.load(pieces, mmap_mode="r"), np.load(offsets))

    def _file(self, name: str) -> Path:
        self.manifest.check(self.folder, name)
        return self.folder / name


def open_prepared(folder: Path, data_fingerprint: str) -> Prepared:
    """The prepared corpus in ``folder``. Raises RefusedError unless it is complete and has this fingerprint."""
    prepared = Prepared(folder)
    if prepared.manifest.fingerprint != data_fingerprint:
        raise damaged(folder, f"its fingerprint is {prepared.manifest.fingerprint}")
    prepared.manifest.check_sizes(folder)
    return prepared


def prepare(data: DataConfig, folder: Path, planned: str | None = None, told: Told = untold) -> Prepared:
    """The prepared corpus under ``folder``, prepared now if it does not exist; refused text leaves nothing behind.

    ``planned`` is the fingerprint that trials were planned with; by default, the current text's. Existing prepared
    text is opened by the fingerprint alone, even if its sources have changed. Raises RefusedError if the text to
    prepare differs from the plan.
    """
    planned = planned or fingerprint(data)
    target = prepared_folder(folder, planned)
    if not target.is_dir():
        if problems := list(corpus(data).problems(data)):
            raise RefusedError(problems)
        with new_folders(target.parent), new_folders(folder / "downloads" / data.name), alone(target):
            if not target.is_dir():
                _make(data, planned, target, folder / "downloads", told)
    return open_prepared(target, planned)


def _make(data: DataConfig, planned: str, target: Path, downloads: Path, told: Told) -> None:
    """Write into a folder next to ``target`` and rename it, so that a folder with the final name is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)  # a process that failed may have removed it
    workshop = Path(tempfile.mkdtemp(prefix=target.name, dir=target.parent))
    workshop.chmod(0o755)  # mkdtemp's 0700 would hide the data from colleagues
    try:
        with at_place(target):
            blank = _write(data, planned, WorkingCopy(workshop), downloads, told)
            PreparedManifest.of(workshop, planned, blank).write(workshop)
        _take_name(workshop, target)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _write(data: DataConfig, planned: str, copy: WorkingCopy, downloads: Path, told: Told) -> int:
    """Write every prepared file; the number of blank training pairs. Raises RefusedError."""
    told("opening the text", None)
    text = corpus(data).load(data, downloads)
    blank = copy.take(text, told)
    if fingerprint_of(data, text.declared()) != planned:
        found = f"the text of data={data.name} changed after it was planned"
        raise RefusedError([Problem("data", found, "must not change before it is prepared; run the command again")])
    told("learning the vocabulary", None)
    path = copy.folder / "vocabulary.model"
    path.write_bytes(vocabulary.build(copy.lines_to_learn(), data.vocab_size, copy.folder))
    for name in text.sets:
        copy.encode(name, vocabulary.Vocabulary(path), told)
    copy.remove("train")
    (copy.folder / "sets.json").write_text(json.dumps(list(text.sets)))
    return blank


def _take_name(workshop: Path, target: Path) -> None:
    try:
        os.rename(workshop, target)  # noqa: PTH104 - atomic, and never replaces a folder with content
    except OSError:
        if not target.is_dir():  # otherwise another process prepared the same text first
            raise
