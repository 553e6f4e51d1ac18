"""The digest of our files on a node."""

from pathlib import Path

from sweeps.preflight.node_facts import digest


def test_a_file_that_is_being_edited_changes_nothing_until_it_is_saved(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("1")
    before = digest([str(tmp_path)])
    (tmp_path / ".#one.py").symlink_to("me@host.42:1")  # Emacs' lock
    (tmp_path / "two.txt").write_text("2")
    assert digest([str(tmp_path)]) == before
    (tmp_path / "one.py").write_text("2")
    assert digest([str(tmp_path)]) != before
