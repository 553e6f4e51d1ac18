"""Text into binary pieces, identified by its declaration; every n-th pair of a large text for the vocabulary."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from small_trials import SMALL, SYNTHETIC, copy_data, prepared_text

from transformer.config import DataConfig
from transformer.data import preparation as working_copy
from transformer.data.corpora import Text
from transformer.data.preparation import WorkingCopy, prepare, untold
from transformer.data.prepared import Sentences, check_lengths
from transformer.data.text_file import SentencePair
from transformer.data.vocabulary import EOS, OPTIONS
from transformer.faults import FaultyError
from transformer.task import fingerprint

SENTENCES = ["the small dog sees a man", "a man sees the dog", "dogs see men", "the old man sleeps"]
TRANSLATED = [
    "der kleine Hund sieht einen Mann",
    "ein Mann sieht den Hund",
    "Hunde sehen Männer",
    "der alte Mann schläft",
]


def texts(folder: Path, vocab_size: int = 300, **contents: Any) -> DataConfig:
    """``data=files`` with these lines of text."""
    sets = dict.fromkeys(("train", "dev", "test"), (SENTENCES, TRANSLATED)) | contents
    files = {}
    for split, sides in sets.items():
        files[split] = [str(folder / f"{split}.{side}") for side in ("source", "target")]
        for name, lines in zip(files[split], sides, strict=True):
            Path(name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    return DataConfig("files", "en", "de", vocab_size, None, **files)


def test_files_become_pieces_that_decode_to_their_text(tmp_path: Path) -> None:
    prepared = prepared_text(texts(tmp_path, dev=(SENTENCES[:2], TRANSLATED[:2])), tmp_path)
    assert prepared.evaluation_sets == ["dev", "test"]
    for name, size in (("train", 4), ("dev", 2), ("test", 4)):
        pairs = prepared.pairs(name)
        assert len(pairs) == size
        for side, lines in ((pairs.source, SENTENCES), (pairs.target, TRANSLATED)):
            pieces = [side[i].tolist() for i in range(size)]
            assert side.lengths.tolist() == [len(sentence) for sentence in pieces]
            assert all(sentence[-1] == EOS for sentence in pieces)
            assert prepared.vocabulary.decode(pieces) == lines[:size]
    assert prepared.references("dev") == TRANSLATED[:2]
    assert len(prepared.vocabulary) == 300


def test_references_are_the_target_text_to_the_last_character(tmp_path: Path) -> None:
    odd = ["zwei  Leerzeichen ", "", "\u2028 Trenner\x0b\x0c\x85", "\tTab\rWagenrücklauf"]
    prepared = prepared_text(texts(tmp_path, dev=(SENTENCES, odd)), tmp_path)
    assert prepared.references("dev") == odd


def test_training_pairs_with_a_blank_side_are_left_out_and_evaluated_ones_are_not(tmp_path: Path) -> None:
    """A tenth of train may be left."""
    gaps = [*SENTENCES, *[""] * 36], [*TRANSLATED, *["leer", " "] * 18]
    prepared = prepared_text(texts(tmp_path, train=gaps, dev=gaps), tmp_path)
    assert (len(prepared.pairs("train")), prepared.blank) == (4, 36)
    assert len(prepared.pairs("dev")) == len(prepared.references("dev")) == 40


def test_pieces_are_those_of_the_whole_text_at_once(tmp_path: Path) -> None:
    """More lines than one batch; studies must find the same bytes again that were prepared in memory."""
    data = copy_data(tmp_path, (12_000, 5, 5), "abcdefgh", longest=8, vocab_size=275)
    prepared = prepared_text(data, tmp_path)
    lines = Path(data.train[0]).read_text("utf-8").splitlines()  # type: ignore[index]
    model, offsets = io.BytesIO(), io.BytesIO()
    pairs = (line for line in lines for _ in ("source", "target"))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=pairs, model_writer=model, vocab_size=275, minloglevel=2, **OPTIONS
    )
    assert prepared.vocabulary_path.read_bytes() == model.getvalue()
    whole, pieces = Sentences.of(prepared.vocabulary.encode(lines)), io.BytesIO()
    np.save(pieces, whole.pieces)
    np.save(offsets, whole.offsets)
    for side in ("source", "target"):
        assert (prepared.folder / f"train.{side}.npy").read_bytes() == pieces.getvalue()
        assert (prepared.folder / f"train.{side}.offsets.npy").read_bytes() == offsets.getvalue()
    kinds = {"train": ("npy", "offsets.npy"), **dict.fromkeys(("dev", "test"), ("npy", "offsets.npy", "txt"))}
    files = {f"{name}.{side}.{kind}" for name in kinds for side in ("source", "target") for kind in kinds[name]}
    assert {path.name for path in prepared.folder.iterdir()} == files | {"vocabulary.model", "sets.json"}


def test_the_fingerprint_changes_with_everything_declared(tmp_path: Path) -> None:
    data = texts(tmp_path)
    declared = [
        data,
        replace(data, source="fr"),
        replace(data, target="fr"),
        replace(data, vocab_size=301),
        *(replace(data, **{split: getattr(data, split)[::-1]}) for split in ("train", "dev", "test")),
        SYNTHETIC,
        replace(SYNTHETIC, vocab_size=999),
        replace(SYNTHETIC, name="multi30k"),
    ]
    assert len({fingerprint(each) for each in declared}) == len(declared)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_the_fingerprint_of_files_depends_on_their_content_and_not_on_their_names(tmp_path: Path, split: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "c").mkdir()
    first, copied = texts(tmp_path / "a"), texts(tmp_path / "b")
    other = texts(tmp_path / "c", 300, **{split: (SENTENCES, [*TRANSLATED[:3], "anders"])})
    assert fingerprint(first) == fingerprint(copied)
    assert fingerprint(first) != fingerprint(other)


def test_an_evaluated_sentence_longer_than_the_position_tables_is_found(tmp_path: Path) -> None:
    data = copy_data(tmp_path, (30, 3, 3), "abcdef", longest=8, vocab_size=270)
    prepared = prepared_text(data, tmp_path)
    longest = {name: int(prepared.pairs(name).target.lengths.max()) for name in ("dev", "test")}
    tight = replace(SMALL, max_positions=min(longest.values()) - 1)
    assert check_lengths(prepared, replace(SMALL, max_positions=max(longest.values()))) == []
    assert [(p.key, p.allowed) for p in check_lengths(prepared, tight)] == [
        ("model.max_positions", f"must be at least {length}, the longest sentence of {name}")
        for name, length in longest.items()
    ]


def test_a_training_set_with_hardly_any_fitting_pair_is_refused_with_its_counts(tmp_path: Path) -> None:
    copies = copy_data(tmp_path, (30, 3, 3), "abcdef", longest=8, vocab_size=270)
    with Path(copies.train[0]).open("a") as file:  # type: ignore[index]
        file.write("\n" * 10)
    prepared = prepared_text(copies, tmp_path)
    lengths = sorted(prepared.pairs("train").longest_sides.tolist())
    assert (len(lengths), prepared.blank) == (30, 10)
    needed = lengths[3]  # the fourth of forty
    longer = sum(length >= needed for length in lengths)
    found = check_lengths(prepared, replace(SMALL, max_positions=needed - 1))[0]
    assert (found.key, found.allowed) == (
        "model.max_positions",
        f"must be at least {needed}, which keeps a tenth of them",
    )
    assert found.found == (
        f"is {needed - 1}; {10 + longer} of 40 training pairs are left out: "
        f"10 blank, {longer} longer than model.max_positions ({needed - 1})"
    )
    fits = check_lengths(prepared, replace(SMALL, max_positions=needed))
    assert not any("training pairs" in problem.found for problem in fits)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_text_that_changes_while_it_is_prepared_is_refused(tmp_path: Path, split: str) -> None:
    data, made = texts(tmp_path), tmp_path / "made"
    made.mkdir()

    def change(step: str, done: float | None) -> None:
        if step == "opening the text":
            texts(tmp_path, 300, **{split: (SENTENCES, [*TRANSLATED[:3], "anders"])})

    with pytest.raises(FaultyError, match=r"text of data=files changed while it was prepared"):
        prepare(data, made, change)


def numbered(size: int) -> Iterator[SentencePair]:
    return ((f"source {number:07d} {'x' * 80}", f"target {number:07d} {'y' * 80}") for number in range(size))


def taken(folder: Path, size: int) -> WorkingCopy:
    copy = WorkingCopy(folder)
    copy.take(Text({"train": numbered(size)}, dict), untold)
    return copy


@pytest.mark.parametrize(("parts", "every"), [(1, 1), (1.01, 2), (3.5, 4), (40, 40)])
def test_a_vocabulary_is_learned_from_evenly_spaced_pairs_of_a_larger_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: float, every: int
) -> None:
    copy = taken(tmp_path, 1000)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    monkeypatch.setattr(working_copy, "SAMPLED_ABOVE", int(size / parts))
    assert list(copy.lines_to_learn()) == [line for pair in list(numbered(1000))[::every] for line in pair]
