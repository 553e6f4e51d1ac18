"""Parallel text line by line; and text that cannot be used: what is said of each fault, and of
Multi30k's files."""

import bz2
import gzip
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from small_trials import files_data, lines_of, prepared_text

from sweeps.task import RefusedError
from transformer.config import DataConfig
from transformer.data.corpora import MULTI30K_SHA256, read_lines
from transformer.faults import Fault, FaultyError
from transformer.task import fingerprint

ENGLISH = [
    f"the {size} dog sees a man and number {n}" for n in range(10) for size in ("small", "big")
]
GERMAN = [
    f"der {size} Hund sieht einen Mann und Nummer {n}"
    for n in range(10)
    for size in ("kleine", "große")
]
SPLITS = {"train": 20, "dev": 3, "test": 3}
ONE = "must be one sentence per line"
Said = list[tuple[str, str]]


def good(folder: Path, vocab_size: int = 310) -> DataConfig:
    """Six good files."""
    return files_data(
        folder,
        vocab_size,
        **{split: (ENGLISH[:size], GERMAN[:size]) for split, size in SPLITS.items()},
    )


def refused(data: DataConfig, folder: Path) -> list[Fault]:
    """What is wrong with this text."""
    with pytest.raises(FaultyError) as caught:
        prepared_text(data, folder)
    return list(caught.value.faults)


KNOWN_WITHOUT_READING: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "missing": ("dev.target", lambda path: None, "does not exist"),
    "folder": ("test.source", Path.mkdir, "is not a file"),
    "named pipe": ("dev.source", os.mkfifo, "is not a file"),
    "link to itself": ("dev.source", lambda path: path.symlink_to(path.name), "does not exist"),
    "empty": ("train.source", Path.touch, "is empty"),
}


@pytest.mark.parametrize(
    "names", [[name] for name in KNOWN_WITHOUT_READING] + [["empty", "named pipe", "missing"]]
)
def test_what_shows_without_reading_is_refused_when_a_plan_is_made(
    tmp_path: Path, names: list[str]
) -> None:
    data = good(tmp_path)
    expected = Said()
    for name in names:
        file, make, fault_text = KNOWN_WITHOUT_READING[name]
        (tmp_path / file).unlink()
        make(tmp_path / file)
        expected.append((f"data.{file.partition('.')[0]}", f"{tmp_path / file} {fault_text}"))
    with pytest.raises(RefusedError) as caught:
        fingerprint(data)
    for faults in (caught.value.problems, refused(data, tmp_path)):
        assert [(fault.key, fault.found) for fault in faults] == expected


LINES = lines_of(ENGLISH)
RANDOM = gzip.compress(os.urandom(9000).hex("\n", 40).encode())
TRAIN: dict[str, tuple[bytes, str, str]] = {
    "cut gzip": (
        RANDOM[:-900],
        " cannot be read: Compressed file ended",
        "must be a complete file",
    ),
    "damaged gzip": (RANDOM[:4000] + b"\0" * 999 + RANDOM[4999:], "", "must be"),
    "gzip and more": (
        gzip.compress(LINES) + b"more",
        " cannot be read: ",
        "must be a complete file",
    ),
    "gzip of nothing": (gzip.compress(b""), " is empty", "UTF-8"),
    "only a mark": (b"\xef\xbb\xbf", " is empty", "UTF-8"),
    "latin-1": (b"a\n" + b"\xe4\n" * 19, ":2 is not UTF-8 text", "UTF-8"),
    "zero byte": (LINES.replace(b"big", b"b\0g", 1), ":2 is not UTF-8 text", "UTF-8"),
    "utf-16": (LINES.decode().encode("utf-16-le"), ":1 is not UTF-8 text", "UTF-8"),
    "another compression": (
        bz2.compress(LINES),
        ":1 is not UTF-8 text",
        "plain or compressed by gzip",
    ),
    "no line ends": (b"the dog sees " * 300_000, ":1 has more than 524288 bytes", ONE),
}


@pytest.mark.parametrize("name", TRAIN)
def test_a_file_that_is_no_text_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    content, fault_text, fix = TRAIN[name]
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(FaultyError) as caught:
        list(read_lines(tmp_path / "text", "data.train"))
    (fault,) = caught.value.faults
    assert fault.key == "data.train"
    assert fault.found.startswith(f"{tmp_path}/text{fault_text}")
    assert fix in fault.allowed


SETS: dict[str, tuple[dict[str, bytes], Said]] = {
    "no line to learn from": (
        {"train.source": lines_of(["ab " * 1400] * 20), "train.target": lines_of(["\u2585"] * 20)},
        [("data.train", "has no line that a vocabulary can be learned from")],
    ),
    "every split": (
        {
            "train.target": lines_of(GERMAN[:19]),
            "dev.source": b"a\n\n\n",
            "dev.target": b"\nb\nc\n",
            "test.source": b"\xff\n\n\n",
        },
        [
            ("data.train", "FOLDER/train.source has 20 lines and FOLDER/train.target has 19"),
            ("data.dev", "has text on both sides in none of its 3 pairs"),
            ("data.test", "FOLDER/test.source:1 is not UTF-8 text"),
        ],
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_faults_of_all_sets_are_refused_together(tmp_path: Path, name: str) -> None:
    data = good(tmp_path)
    contents, expected = SETS[name]
    for file, content in contents.items():
        (tmp_path / file).write_bytes(content)
    faults = refused(data, tmp_path)
    assert [
        (fault.key, fault.found.replace(str(tmp_path), "FOLDER")) for fault in faults
    ] == expected


GOOD = {
    "plain": LINES,
    "two gzips in one": gzip.compress(LINES[:50]) + gzip.compress(LINES[50:]),
    "a byte order mark": b"\xef\xbb\xbf" + LINES,
    "a byte order mark in gzip": gzip.compress(b"\xef\xbb\xbf" + LINES),
    "windows line ends": LINES.replace(b"\n", b"\r\n"),
    "no last line end": LINES[:-1],
}


@pytest.mark.parametrize("name", GOOD)
def test_the_content_says_how_a_file_is_compressed_and_not_its_name(
    tmp_path: Path, name: str
) -> None:
    for path in (tmp_path / "text", tmp_path / "text.gz"):
        path.write_bytes(GOOD[name])
        assert list(read_lines(path, "data")) == ENGLISH


@pytest.mark.parametrize(("size", "allowed"), [(9000, "at most"), (8, "at least")])
def test_a_vocabulary_size_that_the_text_does_not_support_is_refused_with_a_limit(
    tmp_path: Path, size: int, allowed: str
) -> None:
    (fault,) = refused(good(tmp_path, size), tmp_path)
    assert (fault.key, fault.found) == ("data.vocab_size", f"is {size}")
    limit = re.match(rf"must be {allowed} (\d+),", fault.allowed)
    assert limit is not None
    prepared_text(good(tmp_path, int(limit[1])), tmp_path)


MULTI30K = DataConfig("multi30k", "en", "de", 8000, None, None, None, None)
RELEASED = MULTI30K_SHA256["train.en.gz"]


@pytest.mark.parametrize(
    ("changes", "content", "found", "allowed"),
    [
        (
            {"mirror": "FOLDER"},
            None,
            "FOLDER lacks train.en.gz, train.de.gz, ",
            "must hold the files",
        ),
        (
            {"mirror": "FOLDER"},
            b"another text\n",
            "FOLDER/train.en.gz has SHA-256 ",
            f"released file, {RELEASED}",
        ),
        (
            {"mirror": "http://127.0.0.1:9/"},
            None,
            "cannot fetch http://127.0.0.1:9/train.en.gz",
            "data.mirror=DIR",
        ),
        ({"source": "xx"}, None, "has no train.xx.gz", "must be en or de"),
    ],
)
def test_multi30k_s_files_are_there_and_those_released(
    tmp_path: Path, changes: dict[str, str], content: bytes | None, found: str, allowed: str
) -> None:
    for name in MULTI30K_SHA256 if content else ():
        (tmp_path / name).write_bytes(gzip.compress(content or b""))
    settings = {key: value.replace("FOLDER", str(tmp_path)) for key, value in changes.items()}
    fault = refused(replace(MULTI30K, **settings), tmp_path)[0]  # type: ignore[arg-type]
    assert fault.key == f"data.{next(iter(changes))}"
    assert found in fault.found.replace(str(tmp_path), "FOLDER")
    assert allowed in fault.allowed
