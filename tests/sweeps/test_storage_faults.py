"""Storage that is full, read-only, slow or hanging: the sweep waits or ends in one line, and its bits stay the same."""

import errno
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faulty_task import reasons, write_slow_task
from own_filesystem import in_memory, on_image
from small_text import write_text
from studies import ablate, lines, mlflow_runs
from study_on_disk import FIX, FULL, READ_ONLY, Study, wait_for_line

from transformer.config import DataConfig
from transformer.data.prepare import prepare

SLOW, LONG = pytest.mark.slow, [pytest.mark.slow, pytest.mark.faults]
RAY = [pytest.mark.ray, *LONG]


@pytest.fixture
def study(tmp_path: Path, furnish: Callable[[Path], Path]) -> Iterator[Study]:
    """The study's folder is the disk; MLflow's database lies beside it."""
    cwd = write_slow_task(furnish(tmp_path / "study"))
    with in_memory(cwd / "runs" / "s") as disk:
        yield Study(cwd, disk)


@pytest.fixture
def apart(tmp_path: Path, furnish: Callable[[Path], Path]) -> Iterator[Study]:
    """Only the checkpoints lie on the disk."""
    cwd = write_slow_task(furnish(tmp_path / "study"))
    with in_memory(tmp_path / "disk") as disk:
        yield Study(cwd, disk, (f"paths.checkpoints={disk.folder}",))


@pytest.fixture
def freezing(tmp_path: Path, furnish: Callable[[Path], Path]) -> Iterator[Study]:
    """Only the checkpoints lie on the disk, which can be frozen."""
    cwd = write_slow_task(furnish(tmp_path / "study"))
    with on_image(tmp_path / "disk", tmp_path / "image") as disk:
        yield Study(cwd, disk, (f"paths.checkpoints={disk.folder}",))


@pytest.mark.parametrize(
    ("verb", "cause"),
    [
        pytest.param("train", FULL, marks=SLOW),
        pytest.param("sweep", FULL, marks=RAY),
        pytest.param("sweep", READ_ONLY, marks=RAY),
    ],
)
def test_storage_that_fails_for_a_while_loses_nothing(
    verb: str, cause: str, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = study.start(verb)
    running.wait_for_step(4)
    study.break_it(cause)
    notice = wait_for_line(running, f"{cause}; trying again for 2 min")
    study.mend_it(cause)
    code, output = running.finish()
    assert code == 0, notice + output
    assert str(study.trial) in notice
    assert "can be used again" in output
    assert "Traceback" not in output
    assert reasons(study.trial) == ["finished"]
    study.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.parametrize(
    ("verb", "cause"), [pytest.param("train", READ_ONLY, marks=LONG), pytest.param("sweep", FULL, marks=RAY)]
)
def test_storage_that_fails_for_good_ends_the_sweep_in_one_line_and_the_same_command_finishes(
    verb: str, cause: str, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.impatient()
    running = study.start(verb)
    running.wait_for_step(4)
    study.break_it(cause)
    code, output = running.finish()
    study.mend_it(cause)
    assert code == 1, output
    assert "Traceback" not in output
    (line,) = [text for text in output.splitlines() if text.startswith("Failed")]
    assert line.startswith(f"Failed: {study.trial}/")
    assert f": {cause}; {FIX[cause]}, then run again: ablate {verb} task=small" in line
    study.finish(verb)
    study.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.parametrize(
    ("verb", "cause"), [pytest.param("train", FULL, marks=LONG), pytest.param("sweep", READ_ONLY, marks=RAY)]
)
def test_checkpoints_that_cannot_be_written_fail_the_trial_and_the_same_command_resumes(
    verb: str, cause: str, apart: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart.impatient()
    running = apart.start(verb)
    running.wait_for_step(4)
    apart.break_it(cause)
    code, output = running.finish()
    apart.mend_it(cause)
    assert code == 1, output
    assert "Traceback" not in output
    assert re.search(rf"base-s1: FAILED: StorageError: {apart.disk.folder}/\S*: {cause}; {FIX[cause]}", output), output
    assert mlflow_runs(apart.cwd / "runs") == [("base s1", "FAILED")]
    safe = lines(apart.trial / "journal.jsonl")[-1]["checkpoint"]
    apart.finish(verb)
    assert min(line["step"] for line in lines(apart.trial / "journal.jsonl") if line["attempt"] == 2) > safe
    apart.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.parametrize("verb", [pytest.param("train", marks=LONG), pytest.param("sweep", marks=RAY)])
def test_who_does_not_want_to_wait_presses_ctrl_c_twice(
    verb: str, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = study.start(verb)
    running.wait_for_step(4)
    study.break_it(READ_ONLY)
    wait_for_line(running, f"{READ_ONLY}; trying again for 2 min")
    for _ in range(2):
        running.process.send_signal(signal.SIGINT)
        time.sleep(2)  # sooner, it would be the echo of the first
    code, output = running.finish()
    study.mend_it(READ_ONLY)
    assert code == 130, output
    assert "Traceback" not in output
    assert f"To continue, run again: ablate {verb} task=small" in output
    study.finish(verb)
    study.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.parametrize("limit", ["nr_blocks", "nr_inodes"])
@pytest.mark.slow
@pytest.mark.faults
def test_a_disk_that_is_too_small_for_each_file_in_turn(
    limit: str, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets room for one more page, or one more file, whenever something does not fit."""
    size, places = 1, set[str]()
    study.disk.resize(f"{limit}={size}")
    while True:
        running = study.start("train")
        assert running.process.stdout
        for line in running.process.stdout:
            assert "Traceback" not in line, line
            if FULL in line and not line.startswith("sync"):
                places.add(line.partition(f": {FULL}")[0].rpartition(" ")[2].removeprefix(f"{study.disk.folder}/"))
                size += 1
                study.disk.resize(f"{limit}={size}")
        code = running.process.wait()
        if code == 0:
            break
        assert code == 1
    study.check_whole(tmp_path / "alone", monkeypatch)
    assert places >= {"study.json", "base-s1/config.yaml"}, places


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.faults
def test_storage_that_takes_seconds_for_each_write_loses_nothing(
    freezing: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = freezing.start("sweep")
    running.wait_for_step(4)
    while not running.ended():
        with freezing.disk.frozen():
            time.sleep(2)
        time.sleep(0.2)
    code, output = running.finish()
    assert code == 0, output
    assert reasons(freezing.trial) == ["finished"], output
    freezing.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.faults
def test_storage_that_hangs_for_too_long_ends_the_attempt_and_the_next_one_finishes(
    freezing: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that waits for it cannot even be killed before it answers."""
    running = freezing.start("sweep", "sweep.stall_minutes=0.2")
    running.wait_for_step(4)
    with freezing.disk.frozen():
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
    cwd = write_slow_task(furnish(tmp_path / "study"))
    with in_memory(tmp_path / "disk") as disk:
        shutil.copy(cwd / "runs" / "mlflow.db", disk.folder)
        place = f"tracking.uri=sqlite:///{disk.folder}/mlflow.db"
        study = Study(cwd, disk)
        running = study.start("train", place)
        running.wait_for_step(4)
        disk.fill()
        code, output = running.finish()
        assert code == 0, output
        assert "MLflow is not up to date; run `ablate sync`" in output
        assert "Traceback" not in output
        disk.make_room()
        carried = ablate("sync", "sweep.name=s", place, cwd=cwd)
        assert carried.returncode == 0, carried.stdout + carried.stderr
        shutil.copy(disk.folder / "mlflow.db", cwd / "runs")
        study.check_whole(tmp_path / "alone", monkeypatch)


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("limit", ["nr_blocks", "nr_inodes"])
def test_data_that_does_not_fit_is_prepared_once_there_is_room(limit: str, tmp_path: Path) -> None:
    """For every size of the disk until it fits: an error that names the place, and nothing is left."""
    text = write_text(tmp_path)
    train, dev, test = ([str(text / f"{name}.txt")] * 2 for name in ("train", "dev", "test"))
    data = DataConfig("files", "en", "de", 272, None, train, dev, test)
    size = 2
    with in_memory(tmp_path / "disk", f"{limit}={size}") as disk:
        while error := fault_of_preparing(data, disk.folder):
            assert error.errno == errno.ENOSPC
            assert str(error.filename).startswith(str(disk.folder))
            assert not list(disk.folder.iterdir())
            size += 1
            disk.resize(f"{limit}={size}")
    assert size > 10


def fault_of_preparing(data: DataConfig, folder: Path) -> OSError | None:
    try:
        prepare(data, folder)
        return None
    except OSError as error:
        return error
