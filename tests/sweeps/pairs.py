"""Sweeps of one translation trial with two workers: how they begin, and what is left of them once they have ended."""

import json
from pathlib import Path

import psutil
from same_bits import computed, differing, state_after
from small_text import TEXT
from studies import SMALL, Running, ablate, lines, mlflow_runs, wait_until

STEPS, EVERY = 240, 20
WORDS = [
    *SMALL,
    *TEXT,
    f"train.steps={STEPS}",
    f"train.checkpoint_every={EVERY}",
    "train.log_every=10",
    "sweep.rows=[base]",
    "sweep.name=pair",
    "cluster.workers=2",
]


def trial_in(folder: Path) -> Path:
    return folder / "runs" / "pair" / "base-s1"


def start(folder: Path, *more: str) -> Running:
    return Running.start("sweep", *WORDS, *more, cwd=folder, trial=trial_in(folder))


def finish(folder: Path, *more: str) -> Path:
    """Type the command, which must finish; returns the trial."""
    done = ablate("sweep", *WORDS, *more, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return trial_in(folder)


def check_same(found: Path, expected: Path) -> None:
    """Weights, moments, journal and scores are those of the undisturbed trial, and each step is there once."""
    assert differing(state_after(found, STEPS), state_after(expected, STEPS)) == []
    journals = [computed(lines(trial / "journal.jsonl")) for trial in (found, expected)]
    assert [line["step"] for line in journals[0]] == list(range(10, STEPS + 1, 10))
    assert [_without_checkpoint(line) for line in journals[0]] == [_without_checkpoint(line) for line in journals[1]]
    scores = [computed(json.loads((trial / "result.json").read_text())["scores"]) for trial in (found, expected)]
    assert scores[0] == scores[1]


def check_nothing_left(folder: Path) -> None:
    """No process, no lock, no announcement; one run in MLflow, which is finished."""
    wait_for_end(folder)
    study = folder / "runs" / "pair"
    assert [path.name for path in (study / ".running").iterdir()] == []
    assert [path.name for path in (study / ".locks").iterdir() if path.suffix == ".json"] == []
    assert list((study / ".locks").glob(".seen-by-nodes*")) == []
    assert mlflow_runs(folder / "runs") == [("base s1", "FINISHED")]


def wait_for_end(folder: Path) -> None:
    """Of all processes of its sweeps. Ray's agents notice the end of theirs within a minute or so."""
    wait_until(lambda: not processes_of(folder), f"the end of {processes_of(folder)}")


def processes_of(folder: Path) -> list[psutil.Process]:
    """The processes that work in the folder, and still live."""
    found = []
    for process in psutil.process_iter(["cwd", "status"]):
        if str(folder) in (process.info["cwd"] or "") and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def _without_checkpoint(line: dict[str, object]) -> dict[str, object]:
    """A checkpoint is written in the background; which report is the first to tell it may differ."""
    return {name: value for name, value in line.items() if name != "checkpoint"}
