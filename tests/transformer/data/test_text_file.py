"""Parallel text line by line; and text that cannot be used: what is said of each fault."""

import bz2
import gzip
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from small_trials import SMALL, prepared_text

from sweeps.task import RefusedError
from transformer.config import DataConfig
from transformer.data.prepared import check_lengths
from transformer.data.text_file import SentencePair, TextFile, read_lines, read_pairs
from transformer.faults import Fault, FaultyError
from transformer.task import fingerprint

ENGLISH = [f"the {size} dog sees a man and number {n}" for n in range(10) for size in ("small", "big")]
GERMAN = [f"der {size} Hund sieht einen Mann und Nummer {n}" for n in range(10) for size in ("kleine", "große")]
SPLITS = {"train": 20, "dev": 3, "test": 3}
ONE = "is it one sentence per line?"
Said = list[tuple[str, str]]


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def good(folder: Path, vocab_size: int = 310) -> DataConfig:
    """Six good files."""
    sets = {}
    for split, size in SPLITS.items():
        sets[split] = [str(folder / f"{split}.{side}") for side in ("en", "de")]
        for name, lines in zip(sets[split], (ENGLISH, GERMAN), strict=True):
            Path(name).write_bytes(text(lines[:size]))
    return DataConfig("files", "en", "de", vocab_size, None, **sets)


def refused(data: DataConfig, folder: Path) -> list[Fault]:
    """The faults of this text."""
    with pytest.raises(FaultyError) as caught:
        prepared_text(data, folder)
    return list(caught.value.faults)


LINES = text(ENGLISH)
RANDOM = gzip.compress(os.urandom(9000))
KNOWN_WITHOUT_READING: dict[str, tuple[str, Callable[[Path], object] | None, str]] = {
    "missing": ("dev.de", None, "does not exist"),
    "folder": ("test.en", Path.mkdir, "is not a file"),
    "named pipe": ("dev.en", os.mkfifo, "is not a file"),
    "link to itself": ("dev.en", lambda path: path.symlink_to(path.name), "does not exist"),
    "empty": ("train.en", Path.touch, "is empty"),
}


def damaged(folder: Path, names: list[str]) -> Said:
    """Damages the files of these faults; what must be said of them."""
    said = []
    for name in names:
        file, make, fault = KNOWN_WITHOUT_READING[name]
        (folder / file).unlink()
        if make:
            make(folder / file)
        said.append((f"data.{file.partition('.')[0]}", f"{folder / file} {fault}"))
    return said


@pytest.mark.parametrize("names", [[name] for name in KNOWN_WITHOUT_READING] + [["empty", "named pipe", "missing"]])
def test_what_shows_without_reading_is_refused_when_a_plan_is_made(tmp_path: Path, names: list[str]) -> None:
    data, said = good(tmp_path), damaged(tmp_path, names)
    with pytest.raises(RefusedError) as caught:
        fingerprint(data)
    for problems in (caught.value.problems, refused(data, tmp_path)):
        assert [(problem.key, problem.found) for problem in problems] == said


TRAIN: dict[str, tuple[bytes, str, str]] = {
    "cut gzip": (RANDOM[:-900], " cannot be read: Compressed file ended", "must be a complete file"),
    "gzip cut in its header": (RANDOM[:5], " cannot be read: Compressed file ended", "must be a complete file"),
    "damaged gzip": (RANDOM[:4000] + b"\0" * 999 + RANDOM[4999:], " cannot be read: ", "must be a complete file"),
    "gzip and more": (gzip.compress(LINES) + b"more", " cannot be read: ", "must be a complete file"),
    "gzip of nothing": (gzip.compress(b""), " is empty", "UTF-8"),
    "only a mark": (b"\xef\xbb\xbf", " is empty", "UTF-8"),
    "latin-1": (b"a\n" + b"\xe4\n" * 19, ":2 is not UTF-8 text, like 18 other lines", "UTF-8"),
    "zero byte": (LINES.replace(b"big", b"b\0g", 1), ":2 is not UTF-8 text", "UTF-8"),
    "utf-16": (LINES.decode().encode("utf-16-le"), ":1 is not UTF-8 text", "UTF-8"),
    "another compression": (bz2.compress(LINES), ":1 is not UTF-8 text", "plain or compressed by gzip"),
    "compressed twice": (gzip.compress(gzip.compress(LINES)), ":1 is not UTF-8 text", "UTF-8"),
    "no line ends": (b"the dog sees " * 300_000, ":1 has more than 524288 bytes", ONE),
}


@pytest.mark.parametrize("name", TRAIN)
def test_a_file_that_is_no_text_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    data, (content, fault, fix) = good(tmp_path), TRAIN[name]
    (tmp_path / "train.en").write_bytes(content)
    problem = refused(data, tmp_path)[0]
    assert problem.key == "data.train"
    assert problem.found.startswith(f"{tmp_path}/train.en{fault}")
    assert fix in problem.allowed


SETS: dict[str, tuple[dict[str, bytes], Said]] = {
    "never both": (
        {"dev.en": b"a\n\n\n", "dev.de": b"\nb\nc\n"},
        [("data.dev", "has text on both sides in only 0 of 3 pairs")],
    ),
    "no line to learn from": (
        {"train.en": text(["ab " * 1400] * 20), "train.de": text(["\u2585"] * 20)},
        [("data.train", "has no line that a vocabulary can be learned from")],
    ),
    "every split": (
        {"train.de": text(GERMAN[:19]), "dev.de": b"\n\n\n", "test.en": b"\xff\n\n\n", "test.de": text(GERMAN[:4])},
        [
            ("data.train", "FOLDER/train.en has 20 lines and FOLDER/train.de has 19"),
            ("data.dev", "has text on both sides in only 0 of 3 pairs"),
            ("data.test", "FOLDER/test.en:1 is not UTF-8 text"),
            ("data.test", "FOLDER/test.en has 3 lines and FOLDER/test.de has 4"),
        ],
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_faults_of_all_sets_are_refused_together(tmp_path: Path, name: str) -> None:
    data, (contents, said) = good(tmp_path), SETS[name]
    for file, content in contents.items():
        (tmp_path / file).write_bytes(content)
    problems = refused(data, tmp_path)
    assert [(problem.key, problem.found.replace(str(tmp_path), "FOLDER")) for problem in problems] == said


GOOD = {
    "plain": LINES,
    "gzip": gzip.compress(LINES),
    "two gzips in one": gzip.compress(LINES[:50]) + gzip.compress(LINES[50:]),
    "a byte order mark": b"\xef\xbb\xbf" + LINES,
    "a byte order mark in gzip": gzip.compress(b"\xef\xbb\xbf" + LINES),
    "windows line ends": LINES.replace(b"\n", b"\r\n"),
    "no last line end": LINES[:-1],
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("name", GOOD)
def test_the_content_says_how_a_file_is_compressed_and_not_its_name(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(GOOD[name])
    assert read_lines(path, "data") == ENGLISH


@pytest.mark.parametrize(("pieces", "advised"), [(60, True), (3000, False)])
def test_positions_are_advised_only_for_what_may_be_a_sentence(tmp_path: Path, pieces: int, advised: bool) -> None:
    data = good(tmp_path)
    (tmp_path / "dev.de").write_bytes(text([GERMAN[0], "x " * pieces, GERMAN[1]]))
    (problem,) = check_lengths(prepared_text(data, tmp_path), SMALL, data)
    assert f"{tmp_path / 'dev.de'}:2 has " in problem.found
    assert ("must be at least" in problem.allowed) == advised
    assert (ONE in problem.allowed) != advised


def test_positions_are_not_advised_if_nearly_all_training_pairs_are_long(tmp_path: Path) -> None:
    data = good(tmp_path)
    (tmp_path / "train.en").write_bytes(text([ENGLISH[0], *["x y " * 1030] * 18, "x y " * 1040]))
    problem = check_lengths(prepared_text(data, tmp_path), replace(SMALL, max_positions=4), data)[0]
    assert problem.found.startswith("is 4; 20 of 20 training pairs are left out")
    assert problem.allowed.startswith(f"{ONE} {tmp_path / 'train.en'}:20 has ")


@pytest.mark.parametrize(("size", "allowed"), [(10**12, "at most"), (9000, "at most"), (8, "at least")])
def test_a_vocabulary_size_that_the_text_does_not_support_is_refused_with_a_limit(
    tmp_path: Path, size: int, allowed: str
) -> None:
    (problem,) = refused(good(tmp_path, size), tmp_path)
    assert (problem.key, problem.found) == ("data.vocab_size", f"is {size}")
    assert re.match(rf"must be {allowed} \d+,", problem.allowed)


def pairs(folder: Path, source: bytes, target: bytes) -> list[SentencePair]:
    paths = folder / "source.txt", folder / "target.txt"
    for path, content in zip(paths, (source, target), strict=True):
        path.write_bytes(content)
    return list(read_pairs(*map(TextFile, paths)))


@pytest.mark.parametrize("end", ["", "\n"])
def test_pairs_are_read_line_by_line_with_or_without_a_last_line_end(tmp_path: Path, end: str) -> None:
    source, target = f"one two\nthree{end}", f"eins zwei\ndrei{end}"
    expected = [("one two", "eins zwei"), ("three", "drei")]
    assert pairs(tmp_path, source.encode(), target.encode()) == expected


def test_windows_line_ends_and_other_separators_do_not_change_the_lines(tmp_path: Path) -> None:
    found = pairs(tmp_path, b"one\r\ntwo\r\n", "eins\u2028still\nzwei\x0b!\n".encode())
    assert found == [("one", "eins\u2028still"), ("two", "zwei\x0b!")]
