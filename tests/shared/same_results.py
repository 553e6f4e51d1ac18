"""Whether a study that faults struck equals an undisturbed one: results, weights, moments,
journals, MLflow."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from same_bits import computed, differing, leaves
from saved_state import saved_state
from studies import lines

RUNS = """
SELECT run_uuid, runs.name, status FROM runs JOIN experiments USING (experiment_id)
WHERE experiments.name = ? AND runs.name != 'study' AND runs.lifecycle_stage = 'active'
"""
LOSSES = "SELECT step FROM metrics WHERE run_uuid = ? AND key = 'train/loss' ORDER BY step"

NEWEST = "checkpoint"
"""The newest checkpoint that a report knows. It is written in the background, so another report may
be the first."""


def check_same_results(study: Path, undisturbed: Path) -> None:
    """Every trial of it. Raises AssertionError with all that differs."""
    trials = sorted(path.parent.name for path in undisturbed.glob("*/result.json"))
    assert trials, f"{undisturbed} has no result"
    differences = [
        line for name in trials for line in _differences(study / name, undisturbed / name)
    ]
    differences += _differences_in_mlflow(study, trials)
    assert not differences, f"{study.name} is not as an undisturbed sweep: {'; '.join(differences)}"


def _differences(trial: Path, undisturbed: Path) -> Iterator[str]:
    if not (trial / "result.json").exists():
        yield f"{trial.name} has no result"
        return
    result, expected = (
        json.loads((folder / "result.json").read_text("utf-8")) for folder in (trial, undisturbed)
    )
    if computed(result) != computed(expected):
        yield f"{trial.name} has another result"
    step = expected["step"]
    if names := differing(_state(trial, step), _state(undisturbed, step)):
        yield f"{trial.name} has other weights: {', '.join(names[:3])}"
    journal = _journal(trial)
    all_steps = [line["step"] for line in _journal(undisturbed)]
    if (steps := [line["step"] for line in journal]) != all_steps:
        yield f"{trial.name}: the steps in its journal are {steps}"
    elif journal != _journal(undisturbed):
        yield f"{trial.name} has other metrics in its journal"
    if _texts(trial) != _texts(undisturbed):
        yield f"{trial.name} has other texts"


def _state(trial: Path, step: int) -> dict[str, Any]:
    folder, *other_folders = trial.glob(f"checkpoints/*/a*/step-{step}")
    assert not other_folders, f"{trial.name}: more than one attempt has saved step {step}"
    return leaves(saved_state(folder))


def _journal(trial: Path) -> list[dict[str, Any]]:
    journal = []
    for line in lines(trial / "journal.jsonl"):
        journal.append({name: item for name, item in computed(line).items() if name != NEWEST})
    return journal


def _texts(trial: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (trial / "hypotheses").glob("*")}


def _differences_in_mlflow(study: Path, trials: list[str]) -> Iterator[str]:
    """One finished run per trial, with each point of its journal once."""
    with sqlite3.connect(f"file:{study.parent / 'mlflow.db'}?mode=ro", uri=True) as database:
        runs = database.execute(RUNS, (study.name,)).fetchall()
        if len(runs) != len(trials) or any(status != "FINISHED" for _, _, status in runs):
            yield f"MLflow has the runs {sorted((name, status) for _, name, status in runs)}"
            return
        for trial in trials:
            (run,) = [run for run, name, _ in runs if name.endswith(_run_name(trial))]
            points = [step for (step,) in database.execute(LOSSES, (run,))]
            if points != [
                line["step"] for line in _journal(study / trial) if "train/loss" in line["metrics"]
            ]:
                yield f"{trial}: MLflow has the steps {points}"


def _run_name(trial: str) -> str:
    """The end of the name of its run in MLflow: base-s1 is "base s1"."""
    row, _, seed = trial.rpartition("-")
    return f"{row} {seed}"
