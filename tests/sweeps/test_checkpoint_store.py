"""Checkpoints of tasks: the newest whole one wins, whatever happened to the others."""

import errno
import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeps.events import Report
from sweeps.running.checkpoint_store import MANIFEST, STATE, CheckpointStore
from transformer.processes.owner import NAME, SupersededError
from transformer.processes.storage import patiently, telling

KEY = "k" * 64
REPORTS = [Report(10, {"train/loss": 0.5}, 1.0), Report(20, {"train/loss": 0.25}, 2.0, checkpoint=10)]


def store(folder: Path, attempt: int = 1, key: str = KEY) -> CheckpointStore:
    return CheckpointStore(str(folder), key, attempt)


def write(folder: Path, *steps: int, attempt: int = 1) -> CheckpointStore:
    """Checkpoints of one attempt, which started from the newest there."""
    made = store(folder, attempt)
    made.newest()
    for step in steps:
        made.write(step, {"step": step, "attempt": attempt}, REPORTS, 1.5)
    return made


def place(folder: Path, step: int, attempt: int = 1) -> Path:
    return folder / KEY[:16] / f"a{attempt}" / f"step-{step}"


def steps(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder / KEY[:16])) for path in folder.glob(f"{KEY[:16]}/*/*"))


def newest(folder: Path, attempt: int = 9) -> tuple[Any, list[str]]:
    made = store(folder, attempt)
    found = made.newest()
    return found and found.state, made.notices


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert newest(tmp_path) == (None, [])
    write(tmp_path, 10, 20)
    found = store(tmp_path, 2).newest()
    assert found is not None
    assert (found.step, found.state, found.seconds) == (20, {"step": 20, "attempt": 1}, 1.5)
    assert found.reports == tuple(REPORTS)


def test_the_two_newest_stay(tmp_path: Path) -> None:
    write(tmp_path, 10, 20, 30)
    assert steps(tmp_path) == ["a1/step-20", "a1/step-30"]


def test_what_a_resume_started_from_stays_until_two_newer_ones_exist(tmp_path: Path) -> None:
    write(tmp_path, 10, 20)
    write(tmp_path, 30, attempt=2)
    assert steps(tmp_path) == ["a1/step-20", "a2/step-30"]
    (place(tmp_path, 30, 2) / STATE).write_bytes(b"cut")
    state, notices = newest(tmp_path)
    assert state == {"step": 20, "attempt": 1}
    assert len(notices) == 1
    write(tmp_path, 30, 40, attempt=3)
    assert steps(tmp_path) == ["a3/step-30", "a3/step-40"]


def test_an_unfinished_newer_step_of_an_earlier_attempt_is_passed_over_and_removed(tmp_path: Path) -> None:
    write(tmp_path, 10, 20)
    half = place(tmp_path, 30)
    half.mkdir()
    (half / STATE).write_bytes(b"half")
    assert newest(tmp_path) == ({"step": 20, "attempt": 1}, [])
    write(tmp_path, 25, attempt=2)
    assert steps(tmp_path) == ["a1/step-20", "a2/step-25"]
    assert newest(tmp_path)[0] == {"step": 25, "attempt": 2}


def test_later_attempts_are_neither_read_nor_removed(tmp_path: Path) -> None:
    write(tmp_path, 50, attempt=3)
    assert newest(tmp_path, attempt=2) == (None, [])
    write(tmp_path, 10, 20, 30, attempt=2)
    assert "a3/step-50" in steps(tmp_path)


def test_other_trials_are_neither_read_nor_removed(tmp_path: Path) -> None:
    write(tmp_path, 10)
    other = store(tmp_path, key="o" * 64)
    assert other.newest() is None
    for step in (10, 20, 30):
        other.write(step, "other", [], 0.0)
    assert newest(tmp_path)[0] == {"step": 10, "attempt": 1}


def test_a_write_that_is_killed_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write(tmp_path, 10)
    for step in ("put_file", "pipe_file", "mv"):
        with monkeypatch.context() as patched:
            patched.setattr(made.filesystem, step, _killed)
            with pytest.raises(KeyboardInterrupt):
                made.write(20, "new", [], 0.0)
        assert newest(tmp_path) == ({"step": 10, "attempt": 1}, [])
    made.write(20, "new", [], 0.0)
    assert newest(tmp_path)[0] == "new"


def _killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def changed(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / MANIFEST
        content = {**json.loads(path.read_text()), **values}
        path.write_text(json.dumps({name: value for name, value in content.items() if value != "-"}))

    return change


def holding(text: str, file: str = MANIFEST) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / file).write_text(text)

    return change


def as_folder(file: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).mkdir()

    return change


DAMAGES: list[tuple[Callable[[Path], Any], str]] = [
    (holding(""), "manifest.json is damaged"),
    (holding("{"), "manifest.json is damaged"),
    (holding("[]"), "manifest.json is damaged"),
    (holding("3"), "manifest.json is damaged"),
    (holding("null"), "manifest.json is damaged"),
    (holding("{}"), "manifest.json is damaged"),
    (as_folder(MANIFEST), "manifest.json is damaged"),
    (changed(key="o" * 64), "manifest.json belongs to another checkpoint"),
    (changed(key=None), "manifest.json belongs to another checkpoint"),
    (changed(step=10), "manifest.json belongs to another checkpoint"),
    *((changed(**{name: "-"}), "manifest.json is damaged") for name in ("key", "step", "files", "seconds", "reports")),
    *((changed(**{name: 3}), "manifest.json is damaged") for name in ("files", "reports")),
    (changed(reports=[{"stp": 3}]), "manifest.json is damaged"),
    (changed(reports=[3]), "manifest.json is damaged"),
    (changed(seconds=None), "manifest.json is damaged"),
    (changed(step="x"), "manifest.json is damaged"),
    (holding("x", STATE), "state.pickle is damaged"),
    (holding("", STATE), "state.pickle is damaged"),
    (lambda folder: (folder / STATE).unlink(), "state.pickle is missing"),
    (as_folder(STATE), "state.pickle is "),
    (lambda folder: (folder / MANIFEST).write_bytes(b"\xff\xfe"), "manifest.json is damaged"),
]


@pytest.mark.parametrize("case", range(len(DAMAGES)))
def test_a_damaged_checkpoint_is_passed_over_with_a_notice(tmp_path: Path, case: int) -> None:
    damage, said = DAMAGES[case]
    write(tmp_path, 10, 20)
    damage(place(tmp_path, 20))
    state, notices = newest(tmp_path)
    assert state == {"step": 10, "attempt": 1}
    (notice,) = notices
    assert notice.startswith(f"{place(tmp_path, 20)}: {said}"), notice
    assert notice.endswith("; skipped")


def test_strange_names_are_no_checkpoints(tmp_path: Path) -> None:
    write(tmp_path, 10)
    for name in ("a1/step-x", "a1/step-", "ax/step-20", "a2", "b1/step-30"):
        (tmp_path / KEY[:16] / name).mkdir(parents=True)
    (tmp_path / KEY[:16] / "a3").write_text("a file")
    assert newest(tmp_path) == ({"step": 10, "attempt": 1}, [])


def test_own_functions_save_and_load_any_files(tmp_path: Path) -> None:
    def save(state: Any, folder: Path) -> None:
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "weights.txt").write_text(state)
        (folder / "empty").write_bytes(b"")

    def load(folder: Path) -> Any:
        assert (folder / "empty").read_bytes() == b""
        return (folder / "deep" / "er" / "weights.txt").read_text()

    made = CheckpointStore(str(tmp_path), KEY, 1, save, load)
    made.write(10, "first", [], 0.0)
    made.write(20, "second", [], 0.0)
    (place(tmp_path, 20) / "deep" / "er" / "weights.txt").write_text("other")
    again = CheckpointStore(str(tmp_path), KEY, 2, save, load)
    found = again.newest()
    assert found is not None
    assert found.state == "first"
    assert "deep/er/weights.txt is damaged" in again.notices[0]


def test_a_state_without_files_is_a_state(tmp_path: Path) -> None:
    made = CheckpointStore(str(tmp_path), KEY, 1, lambda state, folder: None, lambda folder: "nothing")
    made.write(10, None, [], 0.0)
    found = made.newest()
    assert found is not None
    assert (found.step, found.state) == (10, "nothing")


def test_an_error_while_loading_names_the_checkpoint(tmp_path: Path) -> None:
    def load(folder: Path) -> Any:
        raise AttributeError("no such class")

    write(tmp_path, 10)
    with pytest.raises(AttributeError, match="no such class") as caught:
        CheckpointStore(str(tmp_path), KEY, 2, None, load).newest()
    assert caught.value.__notes__ == [f"while loading {place(tmp_path, 10)}"]


def test_a_file_that_a_changed_load_misses_is_no_unfinished_checkpoint(tmp_path: Path) -> None:
    """Training would start again at step 1, and remove what it did not understand."""

    def load(folder: Path) -> Any:
        return (folder / "weights.pt").read_bytes()

    write(tmp_path, 10)
    made = CheckpointStore(str(tmp_path), KEY, 2, None, load)
    with pytest.raises(FileNotFoundError, match=r"weights\.pt"):
        made.newest()
    found = store(tmp_path).newest()
    assert found is not None
    with pytest.raises(FileNotFoundError, match=r"weights\.pt"):
        made.at(found.start)


@pytest.mark.parametrize("number", [errno.ENOTEMPTY, errno.EBUSY, errno.ESTALE])
def test_a_checkpoint_that_cannot_be_removed_yet_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Such as on NFS, where the folder keeps a file that a process has open."""
    made = write(tmp_path, 10, 20)
    with monkeypatch.context() as patched:
        kept = made.filesystem.rm

        def in_use(path: str, recursive: bool = False) -> None:
            if path.endswith("step-10"):
                raise OSError(number, os.strerror(number), path)
            kept(path, recursive=recursive)

        patched.setattr(made.filesystem, "rm", in_use)
        made.write(30, "state", [], 0.0)
        assert steps(tmp_path) == ["a1/step-10", "a1/step-20", "a1/step-30"]
        assert not (place(tmp_path, 10) / MANIFEST).exists()
    made.write(40, "state", [], 0.0)
    assert steps(tmp_path) == ["a1/step-30", "a1/step-40"]


def test_another_error_of_a_removal_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write(tmp_path, 10, 20)

    def refused(path: str, recursive: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(made.filesystem, "rm", refused)
    with pytest.raises(PermissionError):
        made.write(30, "state", [], 0.0)


@pytest.mark.parametrize("kind", ["memory", "file", "trailing", "blank"])
def test_any_filesystem(tmp_path: Path, kind: str) -> None:
    urls = {
        "memory": f"memory://{uuid.uuid4()}/runs",
        "file": f"file://{tmp_path}/runs",
        "trailing": f"{tmp_path}/runs/",
        "blank": f"{tmp_path}/my runs/ä",
    }
    for attempt, step in ((1, 10), (1, 20), (2, 30)):
        made = CheckpointStore(urls[kind], KEY, attempt)
        made.newest()
        made.write(step, step, REPORTS, 1.0)
    found = CheckpointStore(urls[kind], KEY, 3).newest()
    assert found is not None
    assert (found.step, found.state, found.reports) == (30, 30, tuple(REPORTS))


def test_a_copied_folder_is_as_good(tmp_path: Path) -> None:
    write(tmp_path / "here", 10, 20)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert newest(tmp_path / "there")[0] == {"step": 20, "attempt": 1}


def test_an_attempt_with_a_successor_writes_and_removes_nothing(tmp_path: Path) -> None:
    stale, newest = store(tmp_path, 1), store(tmp_path, 2)
    stale.claim("run")
    for step in (10, 20):
        stale.write(step, {}, [], 0.0)
    newest.claim("run")
    assert newest.newest() is not None
    with pytest.raises(SupersededError, match="attempt 2 owns"):
        stale.write(30, {}, [], 0.0)
    assert steps(tmp_path) == ["a1/step-10", "a1/step-20"]
    newest.write(30, {}, [], 0.0)
    newest.write(40, {}, [], 0.0)
    assert steps(tmp_path) == ["a2/step-30", "a2/step-40"]


def test_the_claim_of_an_earlier_attempt_is_an_old_view_and_ends_nothing(tmp_path: Path) -> None:
    earlier, later = write(tmp_path, 10), store(tmp_path, 2)
    earlier.claim("run")
    old = (tmp_path / KEY[:16] / NAME).read_text()
    later.claim("run")
    (tmp_path / KEY[:16] / NAME).write_text(old)
    later.write(20, {}, REPORTS, 1.5)
    assert "a2/step-20" in steps(tmp_path)


def test_a_worker_waits_until_it_sees_the_checkpoint_of_rank_zero(tmp_path: Path) -> None:
    write(tmp_path, 10)
    write(tmp_path, 20, attempt=2)
    first = store(tmp_path, 3).newest()
    assert first is not None
    hidden = place(tmp_path, 20, attempt=2)
    hidden.rename(tmp_path / "hidden")
    reader, seen = store(tmp_path, 3), list[str]()
    waiting = patiently(lambda: reader.at(first.start), str(tmp_path))
    seen.append(next(waiting))
    (tmp_path / "hidden").rename(hidden)
    assert telling(waiting, seen.append) == first
    assert "rank zero starts from it, but this worker does not see it; trying again for 2 min" in seen[0]


def test_another_checkpoint_in_its_place_is_not_taken(tmp_path: Path) -> None:
    write(tmp_path, 10)
    first = store(tmp_path, 2).newest()
    assert first is not None
    store(tmp_path).write(10, {"other": "bytes"}, REPORTS, 1.5)
    with pytest.raises(OSError, match="rank zero starts from it, but this worker does not see it"):
        store(tmp_path, 2).at(first.start)
