"""The files of a study are in memory soon after they were asked for, before anyone reads them."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from studies_on_disk import make_study

from tracking.looks import files_of
from tracking.read_ahead import read_ahead

PATIENCE_S = 60.0
SIZE = 1 << 16
LONG = 64 << 20


def forget(path: Path) -> None:
    """Write it to its disk, and let the system drop what it holds of it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def held(paths: list[Path]) -> list[int]:
    """How many bytes of each file are in memory, as util-linux tells without reading it."""
    words = ["fincore", "--bytes", "--noheadings", "--output", "RES", *map(str, paths)]
    return [int(each) for each in subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()]


def in_memory(paths: list[Path]) -> list[bool]:
    """Whether each file of ``SIZE`` is held as a whole."""
    return [each == SIZE for each in held(paths)]


def test_all_files_of_all_trials_are_fetched(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", {"base": [1, 2]})
    paths = [path for trial in study.trials for path in files_of(study.trial_folder(trial))]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * SIZE)
        forget(path)
    if any(in_memory(paths)):
        pytest.skip("this filesystem keeps its files in memory")
    read_ahead(study)
    await_true(lambda: all(in_memory(paths)))


def await_true(condition: Callable[[], bool]) -> None:
    patience = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < patience
        time.sleep(0.01)


def test_of_a_long_journal_the_end_is_fetched(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", {"base": [1]})
    journal = study.trial_folder(study.trials[0]).journal_path
    journal.parent.mkdir()
    journal.write_bytes(b"x" * LONG)
    forget(journal)
    if held([journal]) != [0]:
        pytest.skip("this filesystem keeps its files in memory")
    read_ahead(study)
    await_true(lambda: held([journal]) >= [SIZE])
    fetched = held([journal])
    assert fetched < [LONG]
    with journal.open("rb") as file:
        file.seek(-SIZE, os.SEEK_END)
        file.read()
    assert held([journal]) == fetched


def test_files_that_cannot_be_read_are_left_to_their_readers(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", {"base": [1, 2]})
    folder = study.trial_folder(study.trials[0])
    folder.path.mkdir()
    os.mkfifo(folder.journal_path)
    folder.result_path.symlink_to(folder.result_path)
    folder.config_path.mkdir()
    other = study.trial_folder(study.trials[1]).result_path
    other.parent.mkdir()
    other.write_bytes(b"x" * SIZE)
    forget(other)
    if any(in_memory([other])):
        pytest.skip("this filesystem keeps its files in memory")
    read_ahead(study)
    await_true(lambda: all(in_memory([other])))
