"""A study of the paced small task whose folder, or whose checkpoints, lie on a filesystem of their own."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from faulty_task import newest_state, train_to, undisturbed, write_paced_task
from leftovers import check_no_locks, wait_for_end
from own_filesystem import OwnFilesystem
from studies import Running, allelse, lines, mlflow_runs, printed, wait_until

STEPS = 30
HELD = 8
"""The step at which a trial waits for the fault."""
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}"]
FULL, READ_ONLY = "No space left on device", "Read-only file system"
FIX = {FULL: "free space there", READ_ONLY: "make it writable"}
IMPATIENT = "\nfrom sweeps.processes import storage\nstorage.STORAGE_S = 3.0\n"
"""Each process of the sweep imports the task, so all of them try again for seconds instead of minutes."""


@dataclass
class Study:
    """The folder where commands are typed, and the disk. ``apart`` has the checkpoints of all studies, if not None."""

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
        place = [f"paths.checkpoints={self.apart}"] if self.apart else []
        return [verb, *WORDS, "row=base" if verb == "train" else "sweep.rows=[base]", *place]

    def start(self, verb: str, *words: str) -> Running:
        return Running.start(*self.words(verb), *words, cwd=self.cwd, trial=self.trial)

    def start_held(self, verb: str, *words: str) -> Running:
        """It returns once the trial waits at HELD, with its checkpoints saved and its temporary files removed."""
        train_to(HELD, self.cwd)
        running = self.start(verb, *words)
        running.wait_for_step(HELD - 4)
        wait_until(lambda: self._saved() == {f"step-{HELD - 2}", f"step-{HELD}"} or running.ended(), "checkpoints")
        time.sleep(1)  # the temporary files go last
        return running

    def _saved(self) -> set[str]:
        return {path.parent.name for path in self.checkpoints.glob("*/a*/step-*/manifest.json")}

    def go_on(self) -> None:
        """Let the trial go on to its end."""
        train_to(STEPS, self.cwd)

    def finish(self, verb: str) -> None:
        """Type the same command again."""
        again = allelse(*self.words(verb), cwd=self.cwd)
        assert again.returncode == 0, again.stdout + again.stderr

    def impatient(self) -> None:
        write_paced_task(self.cwd, IMPATIENT)

    def break_it(self, cause: str) -> None:
        self.disk.fill() if cause == FULL else self.disk.make_read_only()

    def repair(self, cause: str) -> None:
        self.disk.make_room() if cause == FULL else self.disk.make_writable()

    def check_whole(self, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The bits of an undisturbed trial, each step once, one run in MLflow, and no process or lock left."""
        wait_for_end(self.cwd)
        check_no_locks(self.trial.parent)
        monkeypatch.chdir(self.cwd)
        finished = undisturbed(self.cwd, WORDS, "base", alone)
        assert json.loads((self.trial / "result.json").read_text())["scores"] == finished.scores
        assert newest_state(self.checkpoints) == newest_state(alone)
        assert [line["step"] for line in lines(self.trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
        assert mlflow_runs(self.cwd / "runs") == [("base s1", "FINISHED")]


def wait_for_line(running: Running, text: str) -> str:
    """The next line that it prints with this text."""
    with printed(running.process) as output:
        found = next((line for line in output if text in line), None)
    assert found is not None, f"the command ended without: {text}"
    return found
