"""Lines as they arrive."""

import os
from pathlib import Path

import pytest

from sweeps.trained.lines import decode, windows


def of_file(folder: Path, content: bytes, size: int) -> list[list[bytes]]:
    path = folder / "lines"
    path.write_bytes(content)
    with path.open("rb") as file:
        return list(windows(file.fileno(), size))


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\n\n", [b"a", b""]),
        (b"a\r\nb\r", [b"a", b"b"]),
        ("a\u2028b\x0bc\n".encode(), ["a\u2028b\x0bc".encode()]),
        (b"x" * 200_000 + b"\ny", [b"x" * 200_000, b"y"]),
    ],
)
def test_only_a_line_feed_ends_a_line(tmp_path: Path, content: bytes, lines: list[bytes]) -> None:
    assert [line for window in of_file(tmp_path, content, 100) for line in window] == lines


def test_a_file_comes_in_windows_of_the_same_size(tmp_path: Path) -> None:
    lines = [str(n).encode() for n in range(50_000)]
    found = of_file(tmp_path, b"\n".join(lines), 1_000)
    assert [len(window) for window in found] == [1_000] * 50
    assert [line for window in found for line in window] == lines


def test_a_pipe_yields_available_lines_without_waiting_for_more() -> None:
    """The other end stays open: a window that waited for its size would never come."""
    reading, writing = os.pipe()
    given = windows(reading, 1_000)
    os.write(writing, b"one\n")
    assert next(given) == [b"one"]
    os.write(writing, b"two\nthree\nfo")
    assert next(given) == [b"two", b"three"]
    os.write(writing, b"ur")
    os.close(writing)
    assert list(given) == [[b"four"]]
    os.close(reading)


def test_text_up_to_the_first_line_that_is_not_utf8() -> None:
    assert decode([b"a", "ä".encode(), b"\xff", b"b"]) == ["a", "ä"]
