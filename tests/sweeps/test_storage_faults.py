"""Storage that is full, read-only, slow or hanging: the sweep waits or ends in one line, and its bits stay the same."""

import errno
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from faulty_task import reasons, train_to, write_paced_task
from own_filesystem import in_memory, on_image
from small_text import write_text
from studies import allelse, lines, mlflow_runs, printed
from study_on_disk import FIX, FULL, HELD, READ_ONLY, STEPS, Study, wait_for_line

from sweeps.task import Task, Told
from sweeps.worker.prepared import prepared_folder
from transformer.config import DataConfig
from transformer.data.preparation import prepare
from transformer.task import fingerprint

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
OF_TRIAL = {"config.yaml", "attempts.jsonl", "provenance.json", "journal.jsonl", "result.json"}
OF_CHECKPOINTS = {"owner.json", "manifest.json"}
"""What is written to a trial's folder, and to the folder of its checkpoints."""


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


@pytest.fixture
def freezing_study(tmp_path: Path, furnish: Callable[[Path], Path]) -> Iterator[Study]:
    """The study's folder is the disk, which can be frozen."""
    cwd = write_paced_task(furnish(tmp_path / "study"))
    with on_image(cwd / "runs" / "s", tmp_path / "image") as disk:
        (disk.folder / "lost+found").rmdir()
        yield Study(cwd, disk)


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
    verb, cause = "sweep", FULL
    study.impatient()
    running = study.start_held(verb)
    study.break_it(cause)
    study.go_on()
    code, output = running.finish()
    study.repair(cause)
    assert code == 1, output
    assert "Traceback" not in output
    assert mlflow_runs(study.cwd / "runs") == [("base s1", "KILLED")] or "MLflow is not up to date; run" in output
    (line,) = [text for text in output.splitlines() if text.startswith("Failed")]
    assert line.startswith(f"Failed: {study.trial}/")
    assert f": {cause}; {FIX[cause]}, then run again: allelse {verb} task=small" in line
    study.finish(verb)
    study.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.slow
@pytest.mark.faults
def test_checkpoints_that_cannot_be_written_fail_the_trial_and_the_same_command_resumes(
    apart: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb, cause = "train", READ_ONLY
    apart.impatient()
    running = apart.start_held(verb)
    apart.break_it(cause)
    apart.go_on()
    code, output = running.finish()
    apart.repair(cause)
    assert code == 1, output
    assert "Traceback" not in output
    assert re.search(rf"base-s1: FAILED: StorageError: {apart.disk.folder}/\S*: {cause}; {FIX[cause]}", output), output
    assert mlflow_runs(apart.cwd / "runs") == [("base s1", "FAILED")]
    safe = max(line.get("checkpoint", 0) for line in lines(apart.trial / "journal.jsonl"))
    assert safe >= HELD - 2
    apart.finish(verb)
    assert min(line["step"] for line in lines(apart.trial / "journal.jsonl") if line["attempt"] == 2) > safe
    apart.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.slow
@pytest.mark.faults
def test_who_does_not_want_to_wait_presses_ctrl_c_twice(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb = "train"
    running = study.start_held(verb)
    study.break_it(READ_ONLY)
    study.go_on()
    wait_for_line(running, f"{READ_ONLY}; trying again for 2 min")
    for _ in range(2):
        running.process.send_signal(signal.SIGINT)
        time.sleep(2)  # sooner, it would be the echo of the first
    code, output = running.finish()
    study.repair(READ_ONLY)
    assert code == 130, output
    assert "Traceback" not in output
    assert f"To continue, run again: allelse {verb} task=small" in output
    study.finish(verb)
    study.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.parametrize(
    ("verb", "place", "limit", "kinds"),
    [
        pytest.param("train", "study", "nr_blocks", {"study.json", "config.yaml"}, marks=LONG),
        pytest.param("train", "trial", "nr_inodes", OF_TRIAL, marks=LONG),
        pytest.param("train", "apart", "nr_inodes", OF_CHECKPOINTS, marks=LONG),
    ],
)
def test_a_disk_that_is_too_small_for_each_file_in_turn(
    verb: str,
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
    size, found, code = 2, set[str](), 1
    (study.disk.folder / "ballast").write_bytes(bytes(5000))  # two pages; two files with the folder
    study.disk.resize(f"{limit}={size}")
    while code:
        assert code in (1, 2), "the preflight refuses a folder in which it can write nothing"
        running = study.start(verb)
        with printed(running.process) as output:
            for line in output:
                print(line, end="")
                assert "Traceback" not in line, line
                if FULL in line and not line.startswith("sync"):
                    found.add(Path(line.partition(f": {FULL}")[0].rpartition(" ")[2]).name.removesuffix(".part"))
                    size += 1
                    study.disk.resize(f"{limit}={size}")
        code = running.process.wait()
    study.check_whole(tmp_path / "alone", monkeypatch)
    assert found >= kinds


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize(("place", "workers"), [("freezing", 2), ("freezing_study", 1)])
def test_storage_that_takes_seconds_for_each_write_loses_nothing(
    place: str, workers: int, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study: Study = request.getfixturevalue(place)
    running = study.start_held("sweep", f"cluster.workers={workers}")
    for step in range(HELD + 2, STEPS, 2):
        with study.disk.frozen():
            train_to(step, study.cwd)
            time.sleep(6)  # of ten such waits, a minute
        running.wait_for_step(step - 2)
    study.go_on()
    code, output = running.finish()
    assert code == 0, output
    assert reasons(study.trial) == ["finished"], output
    study.check_whole(tmp_path / "alone", monkeypatch)


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


@pytest.mark.slow
@pytest.mark.faults
def test_data_that_does_not_fit_is_prepared_once_there_is_room(tmp_path: Path) -> None:
    """For every size of the disk until it fits: an error that names the place, and nothing is left."""
    text = write_text(tmp_path)
    train, dev, test = ([str(text / f"{name}.txt")] * 2 for name in ("train", "dev", "test"))
    data = DataConfig("files", "en", "de", 272, None, train, dev, test)
    size = 2
    with in_memory(tmp_path / "disk", f"nr_blocks={size}") as disk:
        while error := fault_of_preparing(data, disk.folder):
            assert error.errno == errno.ENOSPC
            assert str(error.filename).startswith(str(disk.folder))
            assert not list(disk.folder.iterdir())
            size += 1
            disk.resize(f"nr_blocks={size}")
    assert size > 10


def fault_of_preparing(data: DataConfig, folder: Path) -> OSError | None:
    def fill(configs: Sequence[DataConfig], made: Path, told: Told) -> None:
        prepare(configs[0], made, told)

    task = Task("text", 1, DataConfig, (), lambda data: 1, print, fingerprint=fingerprint, prepare=fill)
    try:
        prepared_folder(task, [data], folder, fingerprint(data))
        return None
    except OSError as error:
        return error
