"""What is odd about the text of a corpus: pairs that stand in train too, blank pairs, targets that are their sources.

It is counted while the text is prepared, when all of it is at hand, and kept beside the pieces.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

NOTES = "notes.json"
"""In the folder of prepared data. It describes the data and is no part of its identity."""


@dataclass(frozen=True)
class SetNotes:
    """One set: its pairs, those with a blank side, and those that stand in train; whether all targets are sources."""

    pairs: int
    blank: int
    in_train: int
    copied: bool


@dataclass(frozen=True)
class PairHashes:
    """The pairs of a set as 64-bit numbers of this process, and whether each target is its source."""

    hashes: list[int]
    copied: bool


def note_text(folder: Path, blank: Mapping[str, int]) -> None:
    """Write the notes on the sets that were copied to this folder; ``blank`` counts their pairs with a blank side.

    Memory grows with the sets that are evaluated, and not with train, which is read once.
    """
    evaluated = {name: _pair_hashes(folder, name) for name in blank if name != "train"}
    wanted = {number for pairs in evaluated.values() for number in pairs.hashes}
    trained, copied, seen = 0, True, set[int]()
    for source, target in _lines(folder, "train"):
        trained += 1
        copied = copied and source == target
        number = hash((source, target))
        if number in wanted:
            seen.add(number)
    notes = {"train": SetNotes(trained + blank["train"], blank["train"], 0, copied)}
    for name, pairs in evaluated.items():
        in_train = sum(number in seen for number in pairs.hashes)
        notes[name] = SetNotes(len(pairs.hashes), blank[name], in_train, pairs.copied)
    content = {name: asdict(of_set) for name, of_set in notes.items()}
    (folder / NOTES).write_text(json.dumps(content), "utf-8")


def caution(folder: Path) -> str | None:
    """What is odd about prepared text, in one line; None if nothing is, or if an earlier version prepared it."""
    path = folder / NOTES
    if not path.is_file():
        return None
    content: dict[str, dict[str, int]] = json.loads(path.read_text("utf-8"))
    notes = {name: SetNotes(**of_set) for name, of_set in content.items()}  # type: ignore[arg-type]
    return "; ".join(_clauses(notes)) or None


def _clauses(notes: Mapping[str, SetNotes]) -> Iterator[str]:
    """Such as "pairs that also stand in train: 7 of 24 in dev, 3 of 20 in test"."""
    in_train, blank, copied = list[str](), list[str](), list[str]()
    for name, of_set in notes.items():
        total = f"of {of_set.pairs} in {name}"
        if of_set.in_train:
            in_train.append(f"{of_set.in_train} {total}")
        if of_set.blank:
            blank.append(f"{of_set.blank} {total}")
        if of_set.copied:
            copied.append(name)
    if in_train:
        yield f"pairs that also stand in train: {', '.join(in_train)}"
    if blank:
        yield f"pairs with a blank side: {', '.join(blank)}"
    if copied:
        yield f"target text that is the source text: {', '.join(copied)}"


def _pair_hashes(folder: Path, name: str) -> PairHashes:
    hashes, copied = list[int](), True
    for source, target in _lines(folder, name):
        hashes.append(hash((source, target)))
        copied = copied and source == target
    return PairHashes(hashes, copied)


def _lines(folder: Path, name: str) -> Iterator[tuple[bytes, bytes]]:
    """The pairs of a set as they were copied, with their line ends."""
    paths = [folder / f"{name}.{side}.txt" for side in ("source", "target")]
    with paths[0].open("rb") as sources, paths[1].open("rb") as targets:
        yield from zip(sources, targets, strict=True)
