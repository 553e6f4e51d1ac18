"""`allelse status --curves`: learning curves in a terminal, from the journals alone."""

from pathlib import Path

import pytest
from studies_on_disk import begin, make_study
from typed import refusal, typed

from tracking.study import Study

FALLING = {10: 8.0, 20: 4.0, 30: 2.0, 40: 1.5}


def reported(study: Study, trial: str, values: dict[int, float], metric: str = "dev/ppl", **more: float) -> None:
    (found,) = [each for each in study.trials if each.name == trial]
    folder = study.trial_folder(found)
    attempt = begin(folder)
    for step, value in values.items():
        assert folder.report(attempt, step, {"train/loss": 2 * value, metric: value, **more})


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Two seeds of base and of a row, and a row that is not started. No trial has a result, and there is no MLflow."""
    study = make_study(tmp_path / "runs" / "three", {"base": [1, 2], "a_heads_1": [1, 2], "c_layers_2": [1]})
    for trial, factor in (("base-s1", 1.0), ("base-s2", 1.2), ("a_heads_1-s1", 2.0), ("a_heads_1-s2", 3.0)):
        reported(study, trial, {step: factor * value for step, value in FALLING.items()})
    return study


def test_the_command_draws_the_study_and_names_the_next_command(study: Study) -> None:
    done = typed(study.folder.parents[1], "status", "sweep.name=three", "--curves")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("three: dev PPL over training steps.")
    assert done.stdout.splitlines()[-1].strip().startswith("Next: allelse table")


def test_another_metric_can_be_drawn(study: Study) -> None:
    done = typed(study.folder.parents[1], "status", "sweep.name=three", "--metric", "train/loss")
    assert done.stdout.startswith("three: train/loss over training steps.")


def test_a_metric_that_no_journal_has_is_refused_with_those_that_it_has(study: Study) -> None:
    said = refusal(study.folder.parents[1], "status", "sweep.name=three", "--metric", "train/los")
    assert '--metric is "train/los"' in said
    assert "report train/loss, dev/ppl" in said
    assert "did you mean train/loss?" in said


def test_json_and_curves_are_refused_together(study: Study) -> None:
    assert "--json" in refusal(study.folder.parents[1], "status", "sweep.name=three", "--curves", "--json")
