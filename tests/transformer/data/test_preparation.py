"""Text into binary pieces, identified by its declaration, and whether it fits the model."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from small_trials import (
    SMALL,
    SYNTHETIC,
    copy_data,
    files_data,
    prepared_text,
    small_trial,
    untold,
)

from transformer.config import DataConfig
from transformer.data import prepared as module
from transformer.data.corpora import SentencePair
from transformer.data.prepared import Sentences, copy_text, length_faults, lines_to_learn, prepare
from transformer.data.vocabulary import EOS, OPTIONS
from transformer.faults import Fault, FaultyError
from transformer.task import fingerprint

SENTENCES = ["the small dog sees a man", "a man sees the dog", "dogs see men", "the old man sleeps"]
TRANSLATED = [
    "der kleine Hund sieht einen Mann",
    "ein Mann sieht den Hund",
    "Hunde sehen Männer",
    "der alte Mann schläft",
]


def texts(folder: Path, vocab_size: int = 300, **contents: Any) -> DataConfig:
    """``data=files`` with these lines of text, or the same few in every set."""
    sets = dict.fromkeys(("train", "dev", "test"), (SENTENCES, TRANSLATED)) | contents
    return files_data(folder, vocab_size, **sets)


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


def test_training_pairs_with_a_blank_side_are_left_out_and_evaluated_ones_are_not(
    tmp_path: Path,
) -> None:
    """A tenth of train may be left."""
    gaps = [*SENTENCES, *[""] * 36], [*TRANSLATED, *["leer", " "] * 18]
    prepared = prepared_text(texts(tmp_path, train=gaps, dev=gaps), tmp_path)
    assert (len(prepared.pairs("train")), prepared.blank) == (4, 36)
    assert len(prepared.pairs("dev")) == len(prepared.references("dev")) == 40


def test_pieces_are_those_of_the_whole_text_at_once(tmp_path: Path) -> None:
    """More lines than one batch; studies must find the same bytes again that were prepared in
    memory."""
    data = copy_data(tmp_path, (12_000, 5, 5), "abcdefgh", longest=8, vocab_size=275)
    prepared = prepared_text(data, tmp_path)
    lines = Path(data.train[0]).read_text("utf-8").splitlines()  # type: ignore[index]
    model = io.BytesIO()
    offsets = io.BytesIO()
    pairs = (line for line in lines for _ in ("source", "target"))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=pairs, model_writer=model, vocab_size=275, minloglevel=2, **OPTIONS
    )
    assert prepared.vocabulary_path.read_bytes() == model.getvalue()
    sentences = Sentences.of(prepared.vocabulary.encode(lines))
    pieces = io.BytesIO()
    np.save(pieces, sentences.pieces)
    np.save(offsets, sentences.offsets)
    for side in ("source", "target"):
        assert (prepared.folder / f"train.{side}.npy").read_bytes() == pieces.getvalue()
        assert (prepared.folder / f"train.{side}.offsets.npy").read_bytes() == offsets.getvalue()
    kinds = {
        "train": ("npy", "offsets.npy"),
        **dict.fromkeys(("dev", "test"), ("npy", "offsets.npy", "txt")),
    }
    files = {
        f"{name}.{side}.{suffix}"
        for name in kinds
        for side in ("source", "target")
        for suffix in kinds[name]
    }
    assert {path.name for path in prepared.folder.iterdir()} == files | {
        "vocabulary.model",
        "sets.json",
        "notes.json",
    }


def test_the_fingerprint_changes_with_everything_declared(tmp_path: Path) -> None:
    data = texts(tmp_path)
    variants = [
        data,
        replace(data, source="fr"),
        replace(data, target="fr"),
        replace(data, vocab_size=301),
        *(
            replace(data, **{split: getattr(data, split)[::-1]})
            for split in ("train", "dev", "test")
        ),
        SYNTHETIC,
        replace(SYNTHETIC, vocab_size=999),
        replace(SYNTHETIC, name="multi30k"),
    ]
    assert len({fingerprint(variant) for variant in variants}) == len(variants)


def test_the_fingerprint_of_files_depends_on_their_content_and_not_on_their_names(
    tmp_path: Path,
) -> None:
    places = [tmp_path / name for name in ("copy", "train", "dev", "test")]
    for folder in places:
        folder.mkdir()
    variants = [
        texts(folder, 300, **{folder.name: (SENTENCES, [*TRANSLATED[:3], "anders"])})
        for folder in places[1:]
    ]
    assert fingerprint(texts(tmp_path)) == fingerprint(texts(places[0]))
    assert len({fingerprint(variant) for variant in (texts(tmp_path), *variants)}) == 4


def test_positions_must_hold_every_evaluated_sentence_and_a_tenth_of_the_training_pairs(
    tmp_path: Path,
) -> None:
    data = copy_data(tmp_path, (30, 3, 3), "abcdef", longest=8, vocab_size=270)
    prepared = prepared_text(data, tmp_path)

    def allowed(limit: int, positions: Any = "learned", **train: Any) -> list[str]:
        model = replace(SMALL, positions=positions)
        if not train:
            model = replace(model, max_positions=limit)
        faults = list(length_faults(prepared, small_trial(data, model, **train)))
        key = "train.longest" if train else "model.max_positions"
        set_keys = {"data.dev", "data.test"} if positions == "sinusoids" else set()
        assert {fault.key for fault in faults} <= {key, *set_keys}
        return [fault.allowed for fault in faults]

    longest = {name: int(prepared.pairs(name).target.lengths.max()) for name in ("dev", "test")}
    needed = sorted(prepared.pairs("train").longest_sides.tolist())[2]  # the third of thirty
    set_limits = [
        f"must be at least {length}, the longest sentence of {name}, with learned positions"
        for name, length in longest.items()
    ]
    assert allowed(max(longest.values())) == []
    assert allowed(needed) == set_limits
    too_few = f"must be at least {needed}, which keeps a tenth of them"
    assert allowed(needed - 1) == [too_few, *set_limits]
    assert allowed(needed, "sinusoids") == []
    limit = 8 * (needed - 1)
    assert limit < min(longest.values())
    too_long = f"must have at most {limit} pieces; split the line, or raise model.max_positions"
    assert allowed(needed - 1, "sinusoids") == [too_few, too_long, too_long]
    assert allowed(needed, longest=needed) == []
    assert allowed(needed - 1, longest=needed - 1) == [too_few]


def test_the_longest_sentence_is_named_by_its_file_and_line(tmp_path: Path) -> None:
    data = texts(tmp_path, dev=(SENTENCES, [*TRANSLATED[:1], "x " * 60, *TRANSLATED[2:]]))
    trial = small_trial(data, replace(SMALL, positions="learned"))
    (fault,) = length_faults(prepared_text(data, tmp_path), trial)
    assert f"{tmp_path / 'dev.target'}:2 has " in fault.found


def test_with_sinusoids_attention_s_memory_limits_an_evaluated_sentence(tmp_path: Path) -> None:
    """To eight times ``max_positions``, as for translated lines."""
    long = ["x " * 200, *TRANSLATED[1:]]
    data = texts(tmp_path, dev=(SENTENCES, TRANSLATED), test=(SENTENCES, long))
    prepared = prepared_text(data, tmp_path)
    longest = int(prepared.pairs("test").longest_sides.max())
    assert 8 * 25 < longest <= 8 * 60

    def faults(max_positions: int) -> list[Fault]:
        trial = small_trial(data, replace(SMALL, max_positions=max_positions))
        return list(length_faults(prepared, trial))

    assert faults(60) == []
    found = f"{tmp_path / 'test.target'}:1 has {longest} pieces"
    allowed = "must have at most 200 pieces; split the line, or raise model.max_positions"
    assert faults(25) == [Fault("data.test", found, allowed)]


def test_text_that_changes_while_it_is_prepared_is_refused(tmp_path: Path) -> None:
    data = texts(tmp_path)
    prepared_folder = tmp_path / "made"
    prepared_folder.mkdir()

    def change(step: str, share: float | None) -> None:
        if step == "opening the text":
            texts(tmp_path, dev=(SENTENCES, [*TRANSLATED[:3], "anders"]))

    with pytest.raises(FaultyError, match=r"text of data=files changed while it was prepared"):
        prepare(data, prepared_folder, change)


def numbered(size: int) -> Iterator[SentencePair]:
    return (
        (f"source {number:07d} {'x' * 80}", f"target {number:07d} {'y' * 80}")
        for number in range(size)
    )


@pytest.mark.parametrize(("parts", "every"), [(1, 1), (1.01, 2), (40, 40)])
def test_a_vocabulary_is_learned_from_evenly_spaced_pairs_of_a_larger_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: float, every: int
) -> None:
    copy_text({"train": numbered(1000)}, tmp_path, untold)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    monkeypatch.setattr(module, "SAMPLED_ABOVE", int(size / parts))
    assert list(lines_to_learn(tmp_path)) == [
        line for pair in list(numbered(1000))[::every] for line in pair
    ]
