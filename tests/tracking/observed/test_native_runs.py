"""A study of allelse, exported and imported again, has the same table to the last digit."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import other_tasks
import pytest
from studies_on_disk import EXPERIMENT, Store, send
from typed import printed

from allelse import load
from tracking.study import Study, write_study
from tracking.uri import default_uri

ROWS: dict[str, dict[str, Any]] = {
    "base": {"hidden": 64, "depth": 2},
    "wide": {"hidden": 128},
    "deep": {"depth": 4},
    "plain": {"norm": "none"},
}
SEEDS = (1, 2, 3, 4)
NOT_EXPORTED = ("note", "before_scaling", "cells", "best_by_seed", "best_accuracy", "best_step")
"""Fields of a table that are made from more than the numbers of runs."""


@pytest.fixture
def native(runs: Path, request: pytest.FixtureRequest) -> Study:
    """Four rows with four seeds, whose scores have all their digits."""
    draft = other_tasks.make(runs / request.node.name, other_tasks.DIGITS, ROWS, SEEDS)
    study = replace(draft, identity=f"{request.node.name:0<32}")
    write_study(study)
    chance = Random(63)
    for index, trial in enumerate(study.trials):
        accuracy = 0.9 + 0.02 * (trial.row == "wide") + chance.gauss(0, 0.003)
        scores = {"accuracy": accuracy, "loss": chance.random(), "decode": {}}
        costs = {"params": 4810 + index, "flops": 1e9 * chance.random(), "seconds": chance.random()}
        other_tasks.train(study, index, {"test": scores}, **costs)
    return study


def table(folder: Path, runs: Path, name: str) -> list[dict[str, Any]]:
    words = ("table", f"paths.runs={runs}", f"sweep.name={name}", "--format", "json")
    rows = json.loads(printed(folder, *words))
    exported = []
    for row in rows:
        exported.append({field: row[field] for field in row if field not in NOT_EXPORTED})
    return exported


def test_a_study_exported_to_csv_has_the_same_table(native: Study, tmp_path: Path) -> None:
    frames = load(native.folder)
    scores = frames.scores.pivot(index="trial", columns="metric", values="value").reset_index()
    frames.trials.merge(scores, on="trial").to_csv(tmp_path / "exported.csv")
    words = ("import", "exported.csv", "--row", "row", "--metric", "accuracy:up:test")
    printed(tmp_path, *words)
    exported = table(tmp_path, tmp_path / "runs", "exported")
    assert exported == table(tmp_path, native.folder.parent, native.name)
    assert any(row["finding_accuracy"] == "better" for row in exported)


def test_a_study_exported_to_mlflow_has_the_same_table(
    native: Study, store: Store, tmp_path: Path
) -> None:
    assert store
    send(native, native.name)
    source = f"mlflow:{default_uri(native.folder.parent)}"
    words = ("import", source, "--experiment", native.name, "--metric", "accuracy:up:test")
    answer = json.loads(printed(tmp_path, *words, "--json"))
    exported = table(tmp_path, tmp_path / "runs", native.name)
    assert exported == table(tmp_path, native.folder.parent, native.name)
    assert answer["rows_by"] == "row"
    assert answer["seed"] == "seed"
    assert native.name != EXPERIMENT
    assert answer["doubts"] == []
