"""Storage that is full, read-only, slow or hanging: the sweep waits or ends in one line, and its
bits stay the same."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from faulty_task import check_as_undisturbed, reasons, train_to, write_paced_task
from own_filesystem import OwnFilesystem, in_memory, on_image
from studies import Running, allelse, lines, mlflow_runs, printed, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.faults]
STEPS = 30
HELD = 8
"""The step at which a trial waits for the fault."""
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}"]
FULL = "No space left on device"
READ_ONLY = "Read-only file system"
FIX = {FULL: "free space there", READ_ONLY: "make it writable"}
AGAIN = "then run again: allelse sweep task=small"
BEHIND = "MLflow is not up to date; run `allelse sync sweep.name=s`"
IMPATIENT = "\nfrom sweeps.processes import storage\nstorage.STORAGE_S = 3.0\n"
"""Each process of the sweep imports the task, so all of them try again for seconds instead of
minutes."""
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
"""What is written to a trial's folder, and to the folder of its checkpoints, and finds no room that
was left before."""


@dataclass
class Study:
    """The folder where commands are typed, and the disk. ``apart`` has the checkpoints of all
    studies, if not None."""

    cwd: Path
    disk: OwnFilesystem
    apart: Path | None = None

    @property
    def trial(self) -> Path:
        return self.cwd / "runs" / "s" / "base-s1"

    @property
    def checkpoints(self) -> Path:
        return self.apart / "s" / "base-s1" if self.apart else self.trial / "checkpoints"

    def words(self, verb: str) -> list[str]:
        options = [f"paths.checkpoints={self.apart}"] if self.apart else []
        return [verb, *WORDS, "row=base" if verb == "train" else "sweep.rows=[base]", *options]

    def start(self, verb: str, *words: str) -> Running:
        return Running.start(*self.words(verb), *words, cwd=self.cwd, trial=self.trial)

    def start_held(self, verb: str, *words: str) -> Running:
        """It returns once the trial waits at HELD, with its checkpoints saved and its temporary
        files removed."""
        train_to(HELD, self.cwd)
        running = self.start(verb, *words)
        running.wait_for_step(HELD - 4)
        wait_until(
            lambda: self._saved() == {f"step-{HELD - 2}", f"step-{HELD}"} or running.ended(),
            "checkpoints",
        )
        time.sleep(1)  # the temporary files go last
        return running

    def _saved(self) -> set[str]:
        return {path.parent.name for path in self.checkpoints.glob("*/a*/step-*/manifest.json")}

    @contextmanager
    def broken(self, cause: str) -> Iterator[None]:
        """Within it the disk is full or read-only. The trial goes on to its end."""
        self.disk.fill() if cause == FULL else self.disk.make_read_only()
        self.go_on()
        yield
        self.disk.make_room() if cause == FULL else self.disk.make_writable()

    def go_on(self) -> None:
        train_to(STEPS, self.cwd)

    def finish(self, verb: str) -> None:
        """Type the same command again."""
        process = allelse(*self.words(verb), cwd=self.cwd)
        assert process.returncode == 0, process.stdout + process.stderr

    def impatient(self) -> None:
        write_paced_task(self.cwd, IMPATIENT)

    def check_whole(self, undisturbed: Path) -> None:
        """With one run in MLflow."""
        check_as_undisturbed(self.cwd, WORDS, STEPS, undisturbed, self.checkpoints)
        assert mlflow_runs(self.cwd / "runs") == [("base s1", "FINISHED")]


Furnish = Callable[[Path], Path]


@pytest.fixture
def study(tmp_path: Path, furnish: Furnish) -> Iterator[Study]:
    """The study's folder is the disk, without MLflow's database."""
    cwd = write_paced_task(furnish(tmp_path / "study"))
    with in_memory(cwd / "runs" / "s") as disk:
        yield Study(cwd, disk)


@pytest.fixture
def apart(tmp_path: Path, furnish: Furnish) -> Iterator[Study]:
    """Only the checkpoints lie on the disk."""
    cwd = write_paced_task(furnish(tmp_path / "study"))
    with in_memory(tmp_path / "disk") as disk:
        yield Study(cwd, disk, disk.folder)


@pytest.fixture
def trial(tmp_path: Path, furnish: Furnish) -> Iterator[Study]:
    """Only the trial's folder is the disk, without its checkpoints."""
    cwd = write_paced_task(furnish(tmp_path / "study"))
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    with in_memory(cwd / "runs" / "s" / "base-s1") as disk:
        yield Study(cwd, disk, checkpoints)


@pytest.fixture
def scratch(tmp_path: Path, furnish: Furnish, monkeypatch: pytest.MonkeyPatch) -> Iterator[Study]:
    """The disk is for temporary files, but not those of Ray: its sockets need short names."""
    cwd = write_paced_task(furnish(tmp_path / "study"), OWN_FORMAT, "save=save, load=load")
    with in_memory(tmp_path / "scratch") as disk, monkeypatch.context() as patch:
        patch.setenv("TMPDIR", str(disk.folder))
        patch.setenv("RAY_TMPDIR", "/tmp")
        yield Study(cwd, disk)


@pytest.mark.parametrize(
    ("place", "verb", "workers", "cause", "seconds"),
    [
        pytest.param("study", "train", 1, FULL, 0, marks=pytest.mark.everyday),
        pytest.param("study", "sweep", 2, READ_ONLY, 5, marks=pytest.mark.ray),
        ("scratch", "train", 1, FULL, 0),
    ],
)
def test_storage_that_fails_for_a_while_loses_nothing(
    place: str,
    verb: str,
    workers: int,
    cause: str,
    seconds: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    study: Study = request.getfixturevalue(place)
    running = study.start_held(verb, f"cluster.workers={workers}")
    with study.broken(cause):
        notice = running.wait_for_line(f"{cause}; trying again for 2 min")
        time.sleep(seconds)
    code, output = running.finish()
    assert code == 0, notice + output
    assert str(study.disk.folder) in notice
    assert "can be used again" in output
    assert "Traceback" not in output
    assert reasons(study.trial) == ["finished"]
    study.check_whole(tmp_path / "alone")
    assert not list(study.disk.folder.glob("allelse-*"))


@pytest.mark.ray
def test_a_disk_without_room_for_the_files_of_tune_ends_the_sweep_in_one_line(
    scratch: Study, tmp_path: Path
) -> None:
    scratch.disk.resize("nr_inodes=4")
    scratch.go_on()
    code, output = scratch.start("sweep").finish()
    assert code == 1, output
    assert "Traceback" not in output
    (line,) = [text for text in output.splitlines() if text.startswith("Failed")]
    assert line.startswith(f"Failed: {scratch.disk.folder}/allelse-"), line
    assert f"{FULL}; {FIX[FULL]}, {AGAIN}" in line
    scratch.disk.resize("nr_inodes=1000")
    scratch.finish("sweep")
    scratch.check_whole(tmp_path / "alone")


@pytest.mark.ray
def test_storage_that_fails_for_good_ends_the_sweep_in_one_line_and_the_same_command_finishes(
    study: Study, tmp_path: Path
) -> None:
    study.impatient()
    running = study.start_held("sweep")
    with study.broken(FULL):
        code, output = running.finish()
    assert code == 1, output
    assert "Traceback" not in output
    assert (
        mlflow_runs(study.cwd / "runs") == [("base s1", "KILLED")]
        or "MLflow is not up to date; run" in output
    )
    (line,) = [text for text in output.splitlines() if text.startswith("Failed")]
    assert line.startswith(f"Failed: {study.trial}/")
    assert f": {FULL}; {FIX[FULL]}, {AGAIN}" in line
    study.finish("sweep")
    study.check_whole(tmp_path / "alone")


def test_checkpoints_that_cannot_be_written_fail_the_trial_and_the_same_command_resumes(
    apart: Study, tmp_path: Path
) -> None:
    apart.impatient()
    running = apart.start_held("train")
    with apart.broken(READ_ONLY):
        code, output = running.finish()
    assert code == 1, output
    assert "Traceback" not in output
    failed = (
        rf"base-s1: FAILED: StorageError: {apart.disk.folder}/\S*: {READ_ONLY}; {FIX[READ_ONLY]}"
    )
    assert re.search(failed, output), output
    assert mlflow_runs(apart.cwd / "runs") == [("base s1", "FAILED")]
    saved_step = max(line.get("checkpoint", 0) for line in lines(apart.trial / "journal.jsonl"))
    assert saved_step >= HELD - 2
    apart.finish("train")
    assert (
        min(line["step"] for line in lines(apart.trial / "journal.jsonl") if line["attempt"] == 2)
        > saved_step
    )
    apart.check_whole(tmp_path / "alone")


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
) -> None:
    """It gets room for one more page, or one more file, whenever something does not fit.

    The error of a file that is open has no name: for one of the checkpoints, that of their folder
    is told.
    """
    study: Study = request.getfixturevalue(place)
    study.impatient()
    size = 2
    failed_files = set[str]()
    is_behind = False
    code = 1
    (study.disk.folder / "ballast").write_bytes(bytes(5000))  # two pages; two files with the folder
    study.disk.resize(f"{limit}={size}")
    while code:
        assert code in (1, 2), "the preflight refuses a folder in which it can write nothing"
        running = study.start("train")
        with printed(running.process) as output:
            for line in output:
                print(line, end="")
                assert "Traceback" not in line, line
                is_behind = BEHIND in line or is_behind
                if FULL in line and not line.startswith("sync"):
                    failed_files.add(
                        Path(line.partition(f": {FULL}")[0].rpartition(" ")[2]).name.removesuffix(
                            ".part"
                        )
                    )
                    size += 1
                    study.disk.resize(f"{limit}={size}")
        code = running.process.wait()
    study.disk.resize(f"{limit}=1000")
    if is_behind:  # the ledger of what MLflow has comes last
        assert allelse("sync", "sweep.name=s", cwd=study.cwd).returncode == 0
    study.check_whole(tmp_path / "alone")
    assert failed_files >= kinds, failed_files


@pytest.mark.ray
def test_storage_that_hangs_for_too_long_ends_the_attempt_and_the_next_one_finishes(
    tmp_path: Path, furnish: Furnish
) -> None:
    """A process that waits for it cannot even be killed before it answers."""
    cwd = write_paced_task(furnish(tmp_path / "study"))
    with on_image(tmp_path / "disk", tmp_path / "image") as disk:
        study = Study(cwd, disk, disk.folder)
        running = study.start_held("sweep", "sweep.stall_minutes=0.2")
        with disk.frozen():
            study.go_on()
            notice = running.wait_for_line("starting another attempt")
        code, output = running.finish()
        assert code == 0, notice + output
        assert "no worker gave a sign of life for 0.2 min (sweep.stall_minutes)" in notice
        *losses, end = reasons(study.trial)
        assert (end, {reason.partition(":")[0] for reason in losses}) == (
            "finished",
            {"worker lost"},
        )
        study.check_whole(tmp_path / "alone")


def test_a_full_disk_of_mlflow_stops_no_training_and_sync_carries_the_rest(
    tmp_path: Path, furnish: Furnish
) -> None:
    cwd = write_paced_task(furnish(tmp_path / "study"))
    with in_memory(tmp_path / "disk") as disk:
        shutil.copy(cwd / "runs" / "mlflow.db", disk.folder)
        study = Study(cwd, disk)
        running = study.start_held("train", f"tracking.uri=sqlite:///{disk.folder}/mlflow.db")
        with study.broken(FULL):
            code, output = running.finish()
        assert code == 0, output
        assert BEHIND in output
        assert "Traceback" not in output
        process = allelse("sync", "sweep.name=s", cwd=cwd)
        assert process.returncode == 0, process.stdout + process.stderr
        shutil.copy(disk.folder / "mlflow.db", cwd / "runs")
        study.check_whole(tmp_path / "alone")
