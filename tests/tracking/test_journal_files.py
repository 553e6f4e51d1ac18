from pathlib import Path

import pytest

from tracking.files import append_line, last_line, read_lines, to_json, write_atomic


def test_write_atomic_replaces_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "result.json"
    write_atomic(path, "one")
    write_atomic(path, "two ε")
    assert path.read_text(encoding="utf-8") == "two ε"
    assert [file.name for file in path.parent.iterdir()] == ["result.json"]


def test_write_atomic_keeps_the_old_content_when_the_write_fails(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_atomic(path, "whole")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "part \ud800")
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("torn", ['{"step": 3, "met', '{"step": 3}', "\0\0\0"])
def test_a_torn_last_line_is_left_out_and_does_not_corrupt_the_next(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "journal.jsonl"
    for step in (1, 2):
        append_line(path, to_json({"step": step}))
    with path.open("a") as file:
        file.write(torn)
    assert [line["step"] for line in read_lines(path)] == [1, 2]
    assert last_line(path) == {"step": 2}
    append_line(path, '{"step": 4}', fsync=True)
    assert [line["step"] for line in read_lines(path)] == [1, 2, 4]


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"step": 1}\nnonsense\n{"step": 3}\n')
    with pytest.raises(ValueError, match=r"journal\.jsonl:2: not a JSON line"):
        read_lines(path)


def test_a_missing_file_has_no_lines(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "none") == []
    assert last_line(tmp_path / "none") is None


def test_the_last_line_may_be_longer_than_the_window_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    append_line(path, to_json({"step": 1}))
    append_line(path, to_json({"step": 2, "text": "x" * 100_000}))
    assert (last_line(path) or {})["step"] == 2


def test_a_number_that_is_not_finite_becomes_null() -> None:
    assert to_json({"a": [float("nan"), float("-inf"), 1.0]}) == '{"a": [null, null, 1.0]}'
