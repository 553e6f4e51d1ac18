"""A trial's log is bounded, and who follows it misses no line."""

from pathlib import Path

import pytest

from tracking.activity import log


def test_a_followed_log_gives_every_line_once_although_it_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "WHOLE_LOG", 100)
    path = tmp_path / "log.txt"
    followed = log.FollowedLog(tmp_path / "log.txt")
    assert followed.more() == ""
    lines = [f"line {number} of the log\n" for number in range(30)]
    text = ""
    for index, line in enumerate(lines):
        log.append_log(path, line)
        text += followed.more() if index % 3 == 0 else ""
    assert text + followed.more() == "".join(lines)
    followed.close()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 2 * (100 + len(lines[-1]))
    afterwards = log.FollowedLog(path).more()
    assert "".join(lines).endswith(afterwards)
    assert len(afterwards) > 100


def test_a_character_may_be_written_in_two_parts(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    followed = log.FollowedLog(path)
    bar = "45%|███".encode()
    text = ""
    for part in (bar[:5], bar[5:]):
        with path.open("ab") as file:
            file.write(part)
        text += followed.more()
    followed.close()
    assert text == "45%|███"


def test_a_log_holds_no_password_and_names_ranks(tmp_path: Path) -> None:
    log.append_log(tmp_path / "log.txt", log.marked("postgresql://me:secret@host\nmore\n", 1))
    assert (tmp_path / "log.txt").read_text() == "[1] postgresql://***@host\n[1] more\n"
