"""A study of the slow small task whose folder, or whose checkpoints, lie on a filesystem of their own."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from faulty_task import SLOW, newest_state, undisturbed
from leftovers import wait_for_end
from own_filesystem import OwnFilesystem
from small_task import write_task
from studies import Running, ablate, lines, mlflow_runs

STEPS = 30
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}"]
FULL, READ_ONLY = "No space left on device", "Read-only file system"
FIX = {FULL: "free space there", READ_ONLY: "make it writable"}
IMPATIENT = {
    "\nfrom collections": "\nfrom transformer.processes import storage\nstorage.PATIENCE_S = 3.0\nfrom collections"
}
"""Each process of the sweep imports the task, so all of them try again for seconds instead of minutes."""


@dataclass
class Study:
    """The folder where commands are typed, and the disk. ``more`` are words for where the checkpoints are."""

    cwd: Path
    disk: OwnFilesystem
    more: tuple[str, ...] = ()

    @property
    def trial(self) -> Path:
        return self.cwd / "runs" / "s" / "base-s1"

    @property
    def checkpoints(self) -> Path:
        return self.disk.folder / "s" / "base-s1" if self.more else self.trial / "checkpoints"

    def words(self, verb: str) -> list[str]:
        return [verb, *WORDS, "row=base" if verb == "train" else "sweep.rows=[base]", *self.more]

    def start(self, verb: str, *words: str) -> Running:
        return Running.start(*self.words(verb), *words, cwd=self.cwd, trial=self.trial)

    def finish(self, verb: str) -> None:
        """Type the same command again."""
        again = ablate(*self.words(verb), cwd=self.cwd)
        assert again.returncode == 0, again.stdout + again.stderr

    def impatient(self) -> None:
        write_task(self.cwd, SLOW | IMPATIENT)

    def break_it(self, cause: str) -> None:
        self.disk.fill() if cause == FULL else self.disk.make_read_only()

    def mend_it(self, cause: str) -> None:
        self.disk.make_room() if cause == FULL else self.disk.make_writable()

    def check_whole(self, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The bits of an undisturbed trial, each step once, one run in MLflow, and no process left."""
        wait_for_end(self.cwd)
        monkeypatch.chdir(self.cwd)
        finished = undisturbed(self.cwd, WORDS, "base", alone)
        assert json.loads((self.trial / "result.json").read_text())["scores"] == finished.scores
        assert newest_state(self.checkpoints) == newest_state(alone)
        assert [line["step"] for line in lines(self.trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
        assert mlflow_runs(self.cwd / "runs") == [("base s1", "FINISHED")]


def wait_for_line(running: Running, text: str) -> str:
    """The next line that it prints with this text."""
    assert running.process.stdout
    for line in running.process.stdout:
        if text in line:
            return line
    raise AssertionError(f"the command ended without: {text}")
