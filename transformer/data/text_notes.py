"""Notes on odd text in a corpus: pairs that are also in train, blank pairs, copied sources.

They are counted while the text is prepared, and stored next to the pieces.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

NOTES = "notes.json"
"""In the folder of prepared data. It describes the data and is no part of its identity."""


@dataclass(frozen=True)
class SetNotes:
    """Counts of one set's pairs: all, those with a blank side, and those that are also in train.

    ``copied`` says whether every target equals its source.
    """

    pairs: int
    blank: int
    in_train: int
    copied: bool


@dataclass(frozen=True)
class PairHashes:
    """The pairs of a set as 64-bit hashes of this process; whether every target is its source."""

    hashes: list[int]
    copied: bool


def note_text(folder: Path, blank: Mapping[str, int]) -> None:
    """Write the notes on the sets in this folder; ``blank`` counts their pairs with a blank side.

    Memory grows with the evaluated sets, but not with train, which is read once.
    """
    evaluated = {name: _pair_hashes(folder, name) for name in blank if name != "train"}
    evaluated_hashes = {number for pairs in evaluated.values() for number in pairs.hashes}
    train_pairs = 0
    train_is_copied = True
    hashes_in_train = set[int]()
    for source, target in _lines(folder, "train"):
        train_pairs += 1
        train_is_copied = train_is_copied and source == target
        number = hash((source, target))
        if number in evaluated_hashes:
            hashes_in_train.add(number)
    all_train_pairs = train_pairs + blank["train"]
    notes = {"train": SetNotes(all_train_pairs, blank["train"], 0, train_is_copied)}
    for name, pairs in evaluated.items():
        in_train = sum(number in hashes_in_train for number in pairs.hashes)
        notes[name] = SetNotes(len(pairs.hashes), blank[name], in_train, pairs.copied)
    content = {name: asdict(set_notes) for name, set_notes in notes.items()}
    (folder / NOTES).write_text(json.dumps(content), "utf-8")


def caution(folder: Path) -> str | None:
    """One line on what is odd about prepared text.

    None if nothing is odd, or if an earlier version prepared the text.
    """
    path = folder / NOTES
    if not path.is_file():
        return None
    content: dict[str, dict[str, int]] = json.loads(path.read_text("utf-8"))
    notes = {name: SetNotes(**fields) for name, fields in content.items()}  # type: ignore[arg-type]
    return "; ".join(_clauses(notes)) or None


def _clauses(notes: Mapping[str, SetNotes]) -> Iterator[str]:
    """One clause per oddity.

    Such as "pairs that are also in train: 7 of 24 in dev, 3 of 20 in test".
    """
    in_train = list[str]()
    blank = list[str]()
    copied = list[str]()
    for name, set_notes in notes.items():
        total = f"of {set_notes.pairs} in {name}"
        if set_notes.in_train:
            in_train.append(f"{set_notes.in_train} {total}")
        if set_notes.blank:
            blank.append(f"{set_notes.blank} {total}")
        if set_notes.copied:
            copied.append(name)
    if in_train:
        yield f"pairs that are also in train: {', '.join(in_train)}"
    if blank:
        yield f"pairs with a blank side: {', '.join(blank)}"
    if copied:
        yield f"targets identical to their sources: {', '.join(copied)}"


def _pair_hashes(folder: Path, name: str) -> PairHashes:
    """The hashes of a set's pairs."""
    hashes = list[int]()
    copied = True
    for source, target in _lines(folder, name):
        hashes.append(hash((source, target)))
        copied = copied and source == target
    return PairHashes(hashes, copied)


def _lines(folder: Path, name: str) -> Iterator[tuple[bytes, bytes]]:
    """The pairs of a set as they were copied, with their line ends."""
    paths = [folder / f"{name}.{side}.txt" for side in ("source", "target")]
    with paths[0].open("rb") as sources, paths[1].open("rb") as targets:
        yield from zip(sources, targets, strict=True)
