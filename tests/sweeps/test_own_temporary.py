"""Temporary folders of processes that are killed."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sweeps.running.own_temporary import _remove_dead, own_temporary

HOLDS = """
import time
from sweeps.running.own_temporary import own_temporary
with own_temporary() as folder:
    (folder / "state").write_text("large")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    _remove_dead.cache_clear()


def test_what_a_killed_process_left_is_removed_and_a_living_one_keeps_its_folder(tmp_path: Path) -> None:
    others = {tmp_path / "ablate-of-a-user", tmp_path / "ablate-other-kernel-12-34-abc"}
    for other in others:
        other.mkdir()
    with holding() as (dead, left), holding() as (_, kept):
        dead.kill()
        dead.wait()
        assert (left / "state").exists()
        with own_temporary() as folder:
            assert {*tmp_path.iterdir()} == {kept, folder, *others}
            assert (kept / "state").exists()
        assert not folder.exists()


@contextmanager
def holding() -> "Iterator[tuple[subprocess.Popen[str], Path]]":
    """A process within its own folder."""
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()
