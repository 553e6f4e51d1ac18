"""Text that cannot be used: what is said of each fault, and that nothing is left of a refused preparation."""

import bz2
import gzip
import io
import lzma
import os
import re
import socket
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from small_trials import SMALL

from transformer.config import DataConfig
from transformer.data.fingerprint import fingerprint
from transformer.data.lengths import check_lengths
from transformer.data.prepare import prepare
from transformer.data.text_file import read_lines
from transformer.schema import Problem, RefusedError

ENGLISH = [f"the {size} dog sees a man and number {n}" for n in range(10) for size in ("small", "big")]
GERMAN = [f"der {size} Hund sieht einen Mann und Nummer {n}" for n in range(10) for size in ("kleine", "große")]
SPLITS = {"train": 20, "dev": 3, "test": 3}


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


def refused(data: DataConfig, folder: Path) -> list[Problem]:
    """The problems of this text; nothing may be left."""
    before = sorted(folder.rglob("*"))
    with pytest.raises(RefusedError) as caught:
        prepare(data, folder / "new" / "data")
    assert sorted(folder.rglob("*")) == before
    return caught.value.problems


def writes(**contents: bytes) -> Callable[[Path], object]:
    """Replaces files: train_en is train.en."""

    def write(folder: Path) -> None:
        for name, content in contents.items():
            (folder / name.replace("_", ".")).write_bytes(content)

    return write


def removes(*names: str) -> Callable[[Path], object]:
    def remove(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return remove


def link(name: str, to: str) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(to)

    return make


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def replace(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return replace


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening, chdir(path.parent):
        listening.bind(path.name)


def zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "the dog\n")
    return file.getvalue()


def tarred() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("train.en")
        member.size = 8
        archive.addfile(member, io.BytesIO(b"the dog\n"))
    return file.getvalue()


LINES = text(ENGLISH)
RANDOM = gzip.compress(os.urandom(9000))


class Case(NamedTuple):
    """What makes good text bad, and [key, fault, fix] of each problem; FOLDER stands for the folder."""

    make: Callable[[Path], object]
    said: list[tuple[str, str, str]]


def one(make: Callable[[Path], object], key: str, fault: str, fix: str) -> Case:
    return Case(make, [(key, fault, fix)])


def train(content: bytes, fault: str, fix: str = "UTF-8 text") -> Case:
    """A fault of the source of train."""
    return one(writes(train_en=content), "data.train", f"FOLDER/train.en{fault}", fix)


FILE = "must be a file of UTF-8 text, one sentence per line"
ONE = "is it one sentence per line?"
KNOWN_WITHOUT_READING = {
    "missing": one(removes("dev.de"), "data.dev", "FOLDER/dev.de does not exist", "must be a file"),
    "folder": one(replaced("test.en", Path.mkdir), "data.test", "FOLDER/test.en is a folder", FILE),
    "named pipe": one(
        replaced("dev.en", os.mkfifo), "data.dev", "FOLDER/dev.en is a pipe, which can be read only once", FILE
    ),
    "socket": one(replaced("dev.en", bind), "data.dev", "FOLDER/dev.en is a socket", FILE),
    "device": one(link("dev.en", "/dev/null"), "data.dev", "FOLDER/dev.en is a device", FILE),
    "link to nowhere": one(
        link("dev.en", "lost"), "data.dev", "FOLDER/dev.en is a link to lost, which does not exist", FILE
    ),
    "link to itself": one(
        link("dev.en", "dev.en"), "data.dev", "FOLDER/dev.en is a link to dev.en, which leads back to itself", FILE
    ),
    "empty": train(b"", " is empty", FILE),
    "zip": train(zipped("train.en"), " is a zip archive"),
    "docx": train(zipped("[Content_Types].xml", "word/document.xml"), " is an Office document"),
    "tar": train(tarred(), " is a tar archive"),
    "7z": train(b"7z\xbc\xaf\x27\x1c\x00\x04" + bytes(40), " is a 7z archive"),
    "pdf": train(b"%PDF-1.7\n%\xb5\xb5\n" + LINES, " is a PDF document"),
    "zstd": train(b"\x28\xb5\x2f\xfd\x04\x58" + LINES, " is compressed by zstd", "decompress it first"),
    "lz4": train(b"\x04\x22\x4d\x18\x64" + LINES, " is compressed by lz4", "decompress it first"),
    "parquet": train(b"PAR1\x15\x04" + LINES, " is a Parquet file"),
    "git lfs": train(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        " is a Git LFS pointer, not the file itself", "git lfs pull",
    ),
    "html": train(b"<!DOCTYPE html>\n<p>\n" + LINES, " is HTML, not plain text", "the sentences alone"),
    "sgm": train(b'<srcset setid="x">\n' + LINES, " is SGML, not plain text", "the sentences alone"),
    "utf-16": train(LINES.decode().encode("utf-16"), " is UTF-16", "iconv -f UTF-16 -t UTF-8"),
    "utf-16 without a mark": train(LINES.decode().encode("utf-16-le"), " is UTF-16LE", "iconv -f UTF-16LE -t UTF-8"),
    "utf-16 big end": train(LINES.decode().encode("utf-16-be"), " is UTF-16BE", "iconv -f UTF-16BE -t UTF-8"),
    "utf-32": train(LINES.decode().encode("utf-32"), " is UTF-32", "iconv -f UTF-32 -t UTF-8"),
    "utf-32 without a mark": train(LINES.decode().encode("utf-32-be"), " is UTF-32BE", "iconv -f UTF-32BE -t UTF-8"),
    "all at once": Case(
        removes("train.en", "dev.de", "test.en", "test.de"),
        [
            (f"data.{split}", f"FOLDER/{split}.{side} does not exist", "must be a file")
            for split, side in (("train", "en"), ("dev", "de"), ("test", "en"), ("test", "de"))
        ],
    ),
}  # fmt: skip
FOUND_IN_THE_TEXT = {
    "cut gzip": train(RANDOM[:-900], " is cut off: it ends before its gzip data does", "must be complete"),
    "gzip of nothing": train(gzip.compress(b""), " is empty", "at least one sentence"),
    "gzip cut in its header": train(RANDOM[:5], " is cut off: it ends before its gzip data does", "must be complete"),
    "damaged gzip": train(RANDOM[:4000] + b"\0" * 999 + RANDOM[4999:], " is a damaged gzip file: ", "must be complete"),
    "gzip and more": train(gzip.compress(LINES) + b"more", " is a damaged gzip file: ", "must be complete"),
    "cut bzip2": train(bz2.compress(LINES)[:-9], " is cut off: it ends before its bzip2 data does", "must be complete"),
    "damaged bzip2": train(bz2.compress(LINES)[:60] + bytes(200), " is a damaged bzip2 file: ", "must be complete"),
    "cut xz": train(lzma.compress(LINES)[:-9], " is cut off: it ends before its xz data does", "must be complete"),
    "damaged xz": train(lzma.compress(LINES)[:40] + bytes(200), " is a damaged xz file: ", "must be complete"),
    "tar.gz": train(gzip.compress(tarred()), " is a tar archive"),
    "compressed twice": train(gzip.compress(gzip.compress(LINES)), " is compressed twice, by gzip and gzip", "once"),
    "utf-16 in xz": train(lzma.compress(LINES.decode().encode("utf-16")), " is UTF-16", "iconv"),
    "latin-1": train(b"\xe4\n" * 20, ":1 is not valid UTF-8, as well as lines 2, 3, 4, 5 and 15 more", "iconv"),
    "zero byte": train(LINES.replace(b"big", b"b\0g", 1), ":2 holds a zero byte"),
    "CR": train(LINES.replace(b"\n", b"\r"), " uses CR line ends, so it is one line", "tr '\\r' '\\n'"),
    "much CR": train(b"the dog\r" * 100_000, " uses CR line ends: line 1 has 800000 bytes", "tr '\\r' '\\n'"),
    "all lines long": train(text(["ab " * 1400] * 20), ":1 has 4200 bytes, and 20 of 20 lines more than 4192", ONE),
    "nearly all lines long": train(
        text([ENGLISH[0], "a" * 5000, *["ab " * 1400] * 18]),
        ":2 has 5000 bytes, and 19 of 20 lines more than 4192", ONE,
    ),
    "a million characters": train(text([*ENGLISH[:19], "x" * 1_000_000]), ":20 has 1000000 bytes", ONE),
    "no line ends": train(b"the dog sees " * 300_000, ":1 has 3900000 bytes", ONE),
    "blank": train(b"\n \n\t\n\n" * 5, " holds only blank lines", "at least one sentence"),
    "blank dev": one(writes(dev_de=b"\n\n\n"), "data.dev", "FOLDER/dev.de holds only blank lines", "one sentence"),
    "only a mark": train(b"\xef\xbb\xbf", " is empty", "at least one sentence"),
    "never both": one(
        writes(dev_en=b"a\n\n\n", dev_de=b"\nb\nc\n"),
        "data.dev", "has text on both sides in only 0 of 3 pairs", "must have text on both sides",
    ),
    "lines": one(
        writes(dev_de=text(GERMAN[:2])),
        "data.dev", "FOLDER/dev.en has 3 lines and FOLDER/dev.de has 2", "one line per sentence",
    ),
    "every split": Case(
        writes(train_de=text(GERMAN[:19]), dev_de=b"\n\n\n", test_en=b"\xff\n\n\n", test_de=text(GERMAN[:4])),
        [
            ("data.train", "FOLDER/train.en has 20 lines and FOLDER/train.de has 19", "one line per"),
            ("data.dev", "FOLDER/dev.de holds only blank lines", "one sentence"),
            ("data.test", "FOLDER/test.en:1 is not valid UTF-8", "iconv"),
            ("data.test", "FOLDER/test.en has 3 lines and FOLDER/test.de has 4", "one line per"),
        ],
    ),
    "reserved": one(
        writes(train_en=text(["\u2585"] * 20), train_de=text(["\u2585"] * 20)),
        "data.train", "has no line that a vocabulary can be learned from", "U+2585",
    ),
}  # fmt: skip
CASES = KNOWN_WITHOUT_READING | FOUND_IN_THE_TEXT


@pytest.mark.parametrize("name", CASES)
def test_bad_text_is_refused_with_its_faults_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    data, case = good(tmp_path), CASES[name]
    case.make(tmp_path)
    problems = refused(data, tmp_path)
    found = [(problem.key, problem.found.replace(str(tmp_path), "FOLDER")) for problem in problems]
    assert [key for key, _ in found] == [key for key, _, _ in case.said]
    for (_, fault), (_, expected, fix), problem in zip(found, case.said, problems, strict=True):
        assert fault.startswith(expected) if expected.endswith(": ") else fault == expected
        assert fix in problem.allowed


@pytest.mark.parametrize("name", KNOWN_WITHOUT_READING)
def test_what_shows_without_reading_is_refused_when_a_plan_is_made(tmp_path: Path, name: str) -> None:
    data = good(tmp_path)
    KNOWN_WITHOUT_READING[name].make(tmp_path)
    with pytest.raises(RefusedError) as caught:
        fingerprint(data)
    assert len(caught.value.problems) == len(KNOWN_WITHOUT_READING[name].said)


def test_the_output_of_another_program_is_refused_as_a_pipe(tmp_path: Path) -> None:
    data, (reading, writing) = good(tmp_path), os.pipe()
    pipe = f"/dev/fd/{reading}"
    (problem,) = refused(replace(data, train=[pipe, pipe]), tmp_path)
    assert problem.found == f"{pipe} is a pipe, which can be read only once"
    os.close(reading)
    os.close(writing)


def test_a_misspelt_file_is_offered_and_an_address_is_named(tmp_path: Path) -> None:
    data = replace(good(tmp_path), dev=[str(tmp_path / "dev.emn"), "https://host/dev.de"])
    near, address = refused(data, tmp_path)
    assert near.nearest == str(tmp_path / "dev.en")
    assert address.found == "https://host/dev.de is an address"


GOOD = {
    "gzip": gzip.compress(LINES),
    "bzip2": bz2.compress(LINES),
    "xz": lzma.compress(LINES),
    "lzma": lzma.compress(LINES, lzma.FORMAT_ALONE),
    "two gzips in one": gzip.compress(LINES[:50]) + gzip.compress(LINES[50:]),
    "a byte order mark": b"\xef\xbb\xbf" + LINES,
    "a byte order mark in gzip": gzip.compress(b"\xef\xbb\xbf" + LINES),
    "windows line ends": LINES.replace(b"\n", b"\r\n"),
    "no last line end": LINES[:-1],
}


@pytest.mark.parametrize("suffix", ["", ".gz", ".GZ", ".txt"])
@pytest.mark.parametrize("name", GOOD)
def test_the_content_says_how_a_file_is_compressed_and_not_its_name(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(GOOD[name])
    assert read_lines(path, "data") == ENGLISH


@pytest.mark.parametrize("start", ["BZh9 is a word", "PAR1 is one", "]", "%", "LZIP", "PK", "Rar", "ÿþ", "жук"])
def test_text_that_begins_like_another_format_is_read(tmp_path: Path, start: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(text([start, *ENGLISH]))
    assert read_lines(path, "data")[0] == start


def test_few_long_lines_are_left_out_as_before(tmp_path: Path) -> None:
    data = good(tmp_path)
    writes(train_en=text([*ENGLISH[:18], *["ab " * 1500] * 2]))(tmp_path)
    prepared = prepare(data, tmp_path / "data")
    assert len(prepared.pairs("train")) == 20


@pytest.mark.parametrize(("pieces", "advised"), [(60, True), (3000, False)])
def test_positions_are_advised_only_for_what_may_be_a_sentence(tmp_path: Path, pieces: int, advised: bool) -> None:
    data = good(tmp_path)
    writes(dev_de=text([GERMAN[0], "x " * pieces, GERMAN[1]]))(tmp_path)
    (problem,) = check_lengths(prepare(data, tmp_path / "data"), SMALL, data)
    assert f"{tmp_path / 'dev.de'}:2 has " in problem.found
    assert ("must be at least" in problem.allowed) == advised
    assert (ONE in problem.allowed) != advised


def test_positions_are_not_advised_if_nearly_all_training_pairs_are_long(tmp_path: Path) -> None:
    data = good(tmp_path)
    writes(train_en=text([ENGLISH[0], *["x y " * 1030] * 18, "x y " * 1040]))(tmp_path)
    problem = check_lengths(prepare(data, tmp_path / "data"), replace(SMALL, max_positions=4), data)[0]
    assert problem.found.startswith("is 4; 20 of 20 training pairs are left out")
    assert problem.allowed.startswith(f"{ONE} {tmp_path / 'train.en'}:20 has ")


@pytest.mark.parametrize(
    ("size", "allowed"), [(10**12, "at most"), (2**31, "at most"), (9000, "at most"), (8, "at least")]
)
def test_a_vocabulary_size_that_the_text_does_not_support_is_refused_with_a_limit(
    tmp_path: Path, size: int, allowed: str
) -> None:
    (problem,) = refused(good(tmp_path, size), tmp_path)
    assert (problem.key, problem.found) == ("data.vocab_size", f"is {size}")
    assert re.match(rf"must be {allowed} \d+,", problem.allowed)
