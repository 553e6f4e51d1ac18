"""Reading parallel text: refusals name file and line."""

import gzip
from pathlib import Path

import pytest

from transformer.data.text_file import SentencePair, TextFile, read_pairs
from transformer.schema import Problem, RefusedError

CUT = gzip.compress(b"one\n" * 99)[:-12]


def files(folder: Path, source: bytes, target: bytes, suffix: str = ".txt") -> tuple[Path, Path]:
    paths = folder / f"source{suffix}", folder / f"target{suffix}"
    for path, content in zip(paths, (source, target), strict=True):
        path.write_bytes(content)
    return paths


def pairs(folder: Path, source: bytes, target: bytes, suffix: str = ".txt") -> list[SentencePair]:
    first, second = files(folder, source, target, suffix)
    return list(read_pairs(TextFile(first), TextFile(second)))


def all_refused(folder: Path, source: bytes, target: bytes, suffix: str = ".txt") -> list[Problem]:
    with pytest.raises(RefusedError) as refused:
        pairs(folder, source, target, suffix)
    return refused.value.problems


def refused_pairs(folder: Path, source: bytes, target: bytes, suffix: str = ".txt") -> Problem:
    (problem,) = all_refused(folder, source, target, suffix)
    return problem


@pytest.mark.parametrize("end", ["", "\n"])
def test_pairs_are_read_line_by_line_with_or_without_a_last_line_end(tmp_path: Path, end: str) -> None:
    source, target = f"one two\nthree{end}", f"eins zwei\ndrei{end}"
    expected = [("one two", "eins zwei"), ("three", "drei")]
    assert pairs(tmp_path, source.encode(), target.encode()) == expected


def test_windows_line_ends_and_other_separators_do_not_change_the_lines(tmp_path: Path) -> None:
    found = pairs(tmp_path, b"one\r\ntwo\r\n", "eins\u2028still\nzwei\x0b!\n".encode())
    assert found == [("one", "eins\u2028still"), ("two", "zwei\x0b!")]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    assert pairs(tmp_path, gzip.compress(b"one\n"), gzip.compress("fünf\n".encode()), ".gz") == [("one", "fünf")]


def test_an_empty_line_is_kept_in_its_place(tmp_path: Path) -> None:
    assert pairs(tmp_path, b"one\n\nthree\n", b"eins\nzwei\n\n") == [("one", "eins"), ("", "zwei"), ("three", "")]


def test_different_numbers_of_lines_are_refused_with_both_numbers(tmp_path: Path) -> None:
    problem = refused_pairs(tmp_path, b"one\ntwo\nthree\n", b"eins\nzwei\n")
    assert "source.txt has 3 lines" in problem.found
    assert "target.txt has 2" in problem.found


@pytest.mark.parametrize("side", [0, 1])
def test_a_line_that_is_not_utf8_is_refused_by_file_and_number(tmp_path: Path, side: int) -> None:
    contents = [b"one\ntwo\nthree\n", b"one\ntwo\nthree\n"]
    contents[side] = b"one\nf\xfcnf\nthree \xff\n"
    problem = refused_pairs(tmp_path, contents[0], contents[1])
    assert f"{('source.txt', 'target.txt')[side]}:2 is not valid UTF-8" in problem.found


@pytest.mark.parametrize(
    ("content", "fault"),
    [(b"", "is empty"), (b"\n", "holds only blank lines"), (b"\n \n", "holds only blank lines")],
)
def test_files_without_a_sentence_are_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    found = [problem.found for problem in all_refused(tmp_path, content, content)]
    assert found == [f"{tmp_path / name} {fault}" for name in ("source.txt", "target.txt")]


@pytest.mark.parametrize("side", [0, 1])
def test_one_side_without_a_sentence_is_refused_by_file_name(tmp_path: Path, side: int) -> None:
    contents = [b"one\ntwo\n", b"one\ntwo\n"]
    contents[side] = b" \n\n"
    assert (
        refused_pairs(tmp_path, contents[0], contents[1]).found
        == f"{tmp_path / ('source.txt', 'target.txt')[side]} holds only blank lines"
    )


@pytest.mark.parametrize("suffix", [".txt", ".gz"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, suffix: str) -> None:
    """It would become part of the first source and the first reference."""
    pack = gzip.compress if suffix == ".gz" else bytes
    assert pairs(tmp_path, pack(b"one\n"), pack(b"\xef\xbb\xbfeins\n"), suffix) == [("one", "eins")]


@pytest.mark.parametrize("raw", [CUT, b"\x1f\x8b\x08" + b"x" * 40], ids=["cut", "bad"])
def test_an_incomplete_gzip_file_is_refused(tmp_path: Path, raw: bytes) -> None:
    assert f"{tmp_path / 'source.gz'} is " in refused_pairs(tmp_path, raw, gzip.compress(b"one\n"), ".gz").found


def test_an_unreadable_file_is_refused_with_its_key(tmp_path: Path) -> None:
    file = TextFile(tmp_path, "data.dev")  # a folder
    assert list(file.lines()) == []
    (problem,) = file.problems()
    assert (problem.key, problem.found) == ("data.dev", f"{tmp_path} cannot be read: Is a directory")
