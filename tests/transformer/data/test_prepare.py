"""Text into binary pieces: once, completely or not at all, and identified by its declaration."""

import io
import multiprocessing
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from small_trials import SMALL, SYNTHETIC, copy_data

from sweeps.schema import RefusedError
from transformer.config import DataConfig
from transformer.data.fingerprint import fingerprint
from transformer.data.lengths import check_lengths
from transformer.data.pieces import EOS, OPTIONS
from transformer.data.prepare import Prepared, Sentences, prepare

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


def folders(folder: Path) -> list[Path]:
    return [path for path in (folder / "prepared").iterdir() if path.is_dir()]


def contents(prepared: Prepared) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(prepared.folder.iterdir())}


def prepare_and_report(data: DataConfig, folder: Path, ready: Any, folders_made: Any) -> None:
    """A process that prepares at the same moment as the others."""
    ready.wait()
    folders_made.put(str(prepare(data, folder).folder))


def test_files_become_pieces_that_decode_to_their_text(tmp_path: Path) -> None:
    prepared = prepare(texts(tmp_path, dev=(SENTENCES[:2], TRANSLATED[:2])), tmp_path / "data")
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
    prepared = prepare(texts(tmp_path, dev=(SENTENCES, odd)), tmp_path / "data")
    assert prepared.references("dev") == odd


def test_training_pairs_with_a_blank_side_are_left_out_and_evaluated_ones_are_not(tmp_path: Path) -> None:
    """A tenth of train may be left."""
    gaps = [*SENTENCES, *[""] * 36], [*TRANSLATED, *["leer", " "] * 18]
    prepared = prepare(texts(tmp_path, train=gaps, dev=gaps), tmp_path / "data")
    assert (len(prepared.pairs("train")), prepared.blank) == (4, 36)
    assert len(prepared.pairs("dev")) == len(prepared.references("dev")) == 40


def test_pieces_are_those_of_the_whole_text_at_once(tmp_path: Path) -> None:
    """More lines than one batch; studies must find the same bytes again that were prepared in memory."""
    data = copy_data(tmp_path, (12_000, 5, 5), "abcdefgh", longest=8, vocab_size=275)
    prepared = prepare(data, tmp_path / "data")
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
    assert sorted(contents(prepared)) == sorted(
        [*FILES, *(name.replace("dev", "test") for name in FILES if "dev" in name)]
    )


def test_a_second_preparation_finds_the_first(tmp_path: Path) -> None:
    data = texts(tmp_path)
    first = prepare(data, tmp_path / "data")
    times = {path.name: path.stat().st_mtime_ns for path in first.folder.iterdir()}
    assert prepare(data, tmp_path / "data") == first
    assert {path.name: path.stat().st_mtime_ns for path in first.folder.iterdir()} == times
    assert first.folder.name == fingerprint(data)[:16]


def test_processes_that_prepare_at_once_make_one_complete_folder(tmp_path: Path) -> None:
    data, context = texts(tmp_path), multiprocessing.get_context("spawn")
    ready, folders_made = context.Barrier(2), context.Queue()
    arguments = (data, tmp_path / "data", ready, folders_made)
    processes = [context.Process(target=prepare_and_report, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    found = [folders_made.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert set(found) == {str(path) for path in folders(tmp_path / "data")}
    alone = prepare(data, tmp_path / "alone")
    assert contents(Prepared(Path(found[0]))) == contents(alone)


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
    prepared = prepare(data, tmp_path / "data")
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
    prepared = prepare(copies, tmp_path / "data")
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


def test_text_is_opened_by_its_fingerprint_even_if_its_sources_changed(tmp_path: Path) -> None:
    data = texts(tmp_path)
    planned = fingerprint(data)
    first = prepare(data, tmp_path / "data", planned)
    texts(tmp_path, train=([*SENTENCES, "more"], [*TRANSLATED, "mehr"]))
    assert prepare(data, tmp_path / "data", planned) == first
    (tmp_path / "train.source").unlink()
    assert prepare(data, tmp_path / "data", planned) == first


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_text_that_changed_after_it_was_planned_is_not_prepared(tmp_path: Path, split: str) -> None:
    data = texts(tmp_path)
    planned = fingerprint(data)
    texts(tmp_path, 300, **{split: (SENTENCES, [*TRANSLATED[:3], "anders"])})
    with pytest.raises(RefusedError, match=r"text of data=files changed after it was planned"):
        prepare(data, tmp_path / "data", planned)
    assert not (tmp_path / "data").exists()
    texts(tmp_path)
    assert len(prepare(data, tmp_path / "data", planned).pairs(split)) == 4


FILES = [
    *(
        f"{name}.{side}.{kind}"
        for name in ("train", "dev")
        for side in ("source", "target")
        for kind in ("npy", "offsets.npy")
    ),
    *("dev.source.txt", "dev.target.txt", "sets.json", "vocabulary.model", "manifest.json"),
]


def flip_a_bit(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "one bit": lambda path: path.write_bytes(flip_a_bit(path.read_bytes())),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_prepared_text_is_refused_by_file_name(tmp_path: Path, damage: str) -> None:
    """Before a sweep starts, and where sizes tell it already when the text is opened."""
    data = texts(tmp_path)
    whole = prepare(data, tmp_path / "data").folder
    for name in FILES:
        path = Path(shutil.copytree(whole, tmp_path / name / "data" / "prepared" / whole.name)) / name
        DAMAGES[damage](path)
        with pytest.raises(RefusedError) as refused:
            prepare(data, tmp_path / name / "data").check()
        (problem,) = refused.value.problems
        assert (problem.key, problem.place) == ("paths.data", str(path.parent))
        assert problem.found.startswith(f"prepared text is damaged: {name} ")
        assert "prepared again" in problem.allowed


def test_a_folder_with_the_name_of_another_text_is_refused(tmp_path: Path) -> None:
    data = texts(tmp_path)
    planned = fingerprint(data)
    alike = planned[:16] + "0" * 48
    prepare(data, tmp_path / "data", planned)
    with pytest.raises(RefusedError, match=f"its fingerprint is {planned}"):
        prepare(data, tmp_path / "data", alike)
