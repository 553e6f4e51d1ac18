"""Storage that is full, read-only, slow or hanging: the sweep waits or ends in one line, and its bits stay the same."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faulty_task import reasons, write_paced_task
from own_filesystem import in_memory, on_image
from studies import allelse, lines, mlflow_runs, printed
from study_on_disk import FIX, FULL, HELD, READ_ONLY, Study, wait_for_line

LONG = [pytest.mark.slow, pytest.mark.faults]
EVERYDAY = [*LONG, pytest.mark.everyday]
RAY = [pytest.mark.ray, *LONG]
OWN_FORMAT = """
import json

def save(state, folder):
    (folder / "total.json").write_text(json.dumps(state))

def load(folder):
    return json.loads((folder / "total.json").read_text())
"""
"""Of a task whose states are first written to temporary files."""
OF_TRIAL = {"config.yaml", "attempts.jsonl", "provenance.json", "journal.jsonl"}
OF_CHECKPOINTS = {"owner.json", "manifest.json"}
"""What is written to a trial's folder, and to the folder of its checkpoints, and finds no room that was left before."""


@pytest.fixture
def study(tmp_path: Path, furnish: Callable[[Path], Path]) -> Iterator[Study]:
    """The study's folder is the disk, without MLflow's database."""
    cwd = write_paced_task(furnish(tmp_path / "study"))
    with in_memory(cwd / "runs" / "s") as disk:
        yield Study(cwd, disk)


@pytest.fixture
def apart(tmp_path: Path, furnish: Callable[[Path], Path]) -> Iterator[Study]:
    """Only the checkpoints lie on the disk."""
    cwd = write_paced_task(furnish(tmp_path / "study"))
    with in_memory(tmp_path / "disk") as disk:
        yield Study(cwd, disk, disk.folder)


@pytest.fixture
def trial(tmp_path: Path, furnish: Callable[[Path], Path]) -> Iterator[Study]:
    """Only the trial's folder is the disk, without its checkpoints."""
    cwd, checkpoints = write_paced_task(furnish(tmp_path / "study")), tmp_path / "checkpoints"
    checkpoints.mkdir()
    with in_memory(cwd / "runs" / "s" / "base-s1") as disk:
        yield Study(cwd, disk, checkpoints)


@pytest.fixture
def scratch(tmp_path: Path, furnish: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Study]:
    """The disk is for temporary files, but not those of Ray: its sockets need short names."""
    cwd = write_paced_task(furnish(tmp_path / "study"), OWN_FORMAT, "save=save, load=load")
    with in_memory(tmp_path / "scratch") as disk, monkeypatch.context() as patch:
        patch.setenv("TMPDIR", str(disk.folder))
        patch.setenv("RAY_TMPDIR", "/tmp")
        yield Study(cwd, disk)


@pytest.fixture
def freezing(tmp_path: Path, furnish: Callable[[Path], Path]) -> Iterator[Study]:
    """Only the checkpoints lie on the disk, which can be frozen."""
    cwd = write_paced_task(furnish(tmp_path / "study"))
    with on_image(tmp_path / "disk", tmp_path / "image") as disk:
        yield Study(cwd, disk, disk.folder)


@pytest.mark.parametrize(
    ("verb", "workers", "cause", "seconds"),
    [
        pytest.param("train", 1, FULL, 0, marks=EVERYDAY),
        pytest.param("sweep", 2, READ_ONLY, 5, marks=RAY),
    ],
)
def test_storage_that_fails_for_a_while_loses_nothing(
    verb: str, workers: int, cause: str, seconds: int, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = study.start_held(verb, f"cluster.workers={workers}")
    study.break_it(cause)
    study.go_on()
    notice = wait_for_line(running, f"{cause}; trying again for 2 min")
    time.sleep(seconds)
    study.repair(cause)
    code, output = running.finish()
    assert code == 0, notice + output
    assert str(study.trial) in notice
    assert "can be used again" in output
    assert "Traceback" not in output
    assert reasons(study.trial) == ["finished"]
    study.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.slow
@pytest.mark.faults
def test_a_full_disk_of_temporary_files_loses_nothing(
    scratch: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint in the task's own format is first written there."""
    running = scratch.start_held("train")
    scratch.break_it(FULL)
    scratch.go_on()
    notice = wait_for_line(running, f"{FULL}; trying again for 2 min")
    scratch.repair(FULL)
    code, output = running.finish()
    assert code == 0, notice + output
    assert str(scratch.disk.folder) in notice
    assert "can be used again" in output
    assert "Traceback" not in output
    assert reasons(scratch.trial) == ["finished"]
    scratch.check_whole(tmp_path / "alone", monkeypatch)
    assert not list(scratch.disk.folder.glob("allelse-*"))


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.faults
def test_a_disk_without_room_for_the_files_of_tune_ends_the_sweep_in_one_line(
    scratch: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch.disk.resize("nr_inodes=4")
    scratch.go_on()
    code, output = scratch.start("sweep").finish()
    assert code == 1, output
    assert "Traceback" not in output
    (line,) = [text for text in output.splitlines() if text.startswith("Failed")]
    assert line.startswith(f"Failed: {scratch.disk.folder}/allelse-"), line
    assert f"{FULL}; {FIX[FULL]}, then run again: allelse sweep task=small" in line
    scratch.disk.resize("nr_inodes=1000")
    scratch.finish("sweep")
    scratch.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.faults
def test_storage_that_fails_for_good_ends_the_sweep_in_one_line_and_the_same_command_finishes(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.impatient()
    running = study.start_held("sweep")
    study.break_it(FULL)
    study.go_on()
    code, output = running.finish()
    study.repair(FULL)
    assert code == 1, output
    assert "Traceback" not in output
    assert mlflow_runs(study.cwd / "runs") == [("base s1", "KILLED")] or "MLflow is not up to date; run" in output
    (line,) = [text for text in output.splitlines() if text.startswith("Failed")]
    assert line.startswith(f"Failed: {study.trial}/")
    assert f": {FULL}; {FIX[FULL]}, then run again: allelse sweep task=small" in line
    study.finish("sweep")
    study.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.slow
@pytest.mark.faults
def test_checkpoints_that_cannot_be_written_fail_the_trial_and_the_same_command_resumes(
    apart: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart.impatient()
    running = apart.start_held("train")
    apart.break_it(READ_ONLY)
    apart.go_on()
    code, output = running.finish()
    apart.repair(READ_ONLY)
    assert code == 1, output
    assert "Traceback" not in output
    assert re.search(
        rf"base-s1: FAILED: StorageError: {apart.disk.folder}/\S*: {READ_ONLY}; {FIX[READ_ONLY]}", output
    ), output
    assert mlflow_runs(apart.cwd / "runs") == [("base s1", "FAILED")]
    safe = max(line.get("checkpoint", 0) for line in lines(apart.trial / "journal.jsonl"))
    assert safe >= HELD - 2
    apart.finish("train")
    assert min(line["step"] for line in lines(apart.trial / "journal.jsonl") if line["attempt"] == 2) > safe
    apart.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize(
    ("place", "limit", "kinds"),
    [
        ("study", "nr_blocks", {"study.json"}),
        ("trial", "nr_inodes", OF_TRIAL),
        ("apart", "nr_inodes", OF_CHECKPOINTS),
    ],
)
def test_a_disk_that_is_too_small_for_each_file_in_turn(
    place: str,
    limit: str,
    kinds: set[str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It gets room for one more page, or one more file, whenever something does not fit.

    The error of a file that is open has no name: for one of the checkpoints, that of their folder is told.
    """
    study: Study = request.getfixturevalue(place)
    study.impatient()
    size, found, behind, code = 2, set[str](), False, 1
    (study.disk.folder / "ballast").write_bytes(bytes(5000))  # two pages; two files with the folder
    study.disk.resize(f"{limit}={size}")
    while code:
        assert code in (1, 2), "the preflight refuses a folder in which it can write nothing"
        running = study.start("train")
        with printed(running.process) as output:
            for line in output:
                print(line, end="")
                assert "Traceback" not in line, line
                behind = "MLflow is not up to date; run `allelse sync sweep.name=s`" in line or behind
                if FULL in line and not line.startswith("sync"):
                    found.add(Path(line.partition(f": {FULL}")[0].rpartition(" ")[2]).name.removesuffix(".part"))
                    size += 1
                    study.disk.resize(f"{limit}={size}")
        code = running.process.wait()
    study.disk.resize(f"{limit}=1000")
    if behind:  # the ledger of what MLflow has comes last
        assert allelse("sync", "sweep.name=s", cwd=study.cwd).returncode == 0
    study.check_whole(tmp_path / "alone", monkeypatch)
    assert found >= kinds, found


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.faults
def test_storage_that_hangs_for_too_long_ends_the_attempt_and_the_next_one_finishes(
    freezing: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that waits for it cannot even be killed before it answers."""
    running = freezing.start_held("sweep", "sweep.stall_minutes=0.2")
    with freezing.disk.frozen():
        freezing.go_on()
        notice = wait_for_line(running, "starting another attempt")
    code, output = running.finish()
    assert code == 0, notice + output
    assert "no worker gave a sign of life for 0.2 min (sweep.stall_minutes)" in notice
    *lost, end = reasons(freezing.trial)
    assert (end, {reason.partition(":")[0] for reason in lost}) == ("finished", {"worker lost"})
    freezing.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.slow
@pytest.mark.faults
def test_a_full_disk_of_mlflow_stops_no_training_and_sync_carries_the_rest(
    tmp_path: Path, furnish: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cwd = write_paced_task(furnish(tmp_path / "study"))
    with in_memory(tmp_path / "disk") as disk:
        shutil.copy(cwd / "runs" / "mlflow.db", disk.folder)
        place = f"tracking.uri=sqlite:///{disk.folder}/mlflow.db"
        study = Study(cwd, disk)
        running = study.start_held("train", place)
        disk.fill()
        study.go_on()
        code, output = running.finish()
        assert code == 0, output
        assert "MLflow is not up to date; run `allelse sync sweep.name=s`" in output
        assert "Traceback" not in output
        disk.make_room()
        carried = allelse("sync", "sweep.name=s", cwd=cwd)
        assert carried.returncode == 0, carried.stdout + carried.stderr
        shutil.copy(disk.folder / "mlflow.db", cwd / "runs")
        study.check_whole(tmp_path / "alone", monkeypatch)
