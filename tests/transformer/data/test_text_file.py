"""Reading parallel text line by line; what is refused is in ``test_bad_text.py``."""

from pathlib import Path

import pytest

from transformer.data.text_file import SentencePair, TextFile, read_pairs


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


def test_an_empty_line_is_kept_in_its_place(tmp_path: Path) -> None:
    assert pairs(tmp_path, b"one\n\nthree\n", b"eins\nzwei\n\n") == [("one", "eins"), ("", "zwei"), ("three", "")]


def test_an_unreadable_file_is_refused_with_its_key(tmp_path: Path) -> None:
    file = TextFile(tmp_path, "data.dev")  # a folder
    assert list(file.lines()) == []
    (fault,) = file.faults()
    assert (fault.key, fault.found) == ("data.dev", f"{tmp_path} cannot be read: Is a directory")
