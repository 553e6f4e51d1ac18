"""`allelse status --curves`: learning curves in a terminal, from the journals alone."""

from pathlib import Path

import pytest
from studies_on_disk import begin, make_study
from typed import refusal, typed

from tracking.study import Study

FALLING = {10: 8.0, 20: 4.0, 30: 2.0, 40: 1.5}


def reported(
    study: Study, trial: str, values: dict[int, float], metric: str = "dev/ppl", **metrics: float
) -> None:
    (recorded_trial,) = [candidate for candidate in study.trials if candidate.name == trial]
    folder = study.trial_folder(recorded_trial)
    attempt = begin(folder)
    for step, value in values.items():
        assert folder.report(attempt, step, {"train/loss": 2 * value, metric: value, **metrics})


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Two seeds of base and of a row, and a row that is not started. No trial has a result, and
    there is no MLflow."""
    study = make_study(
        tmp_path / "runs" / "three", {"base": [1, 2], "a_heads_1": [1, 2], "c_layers_2": [1]}
    )
    for trial, factor in (
        ("base-s1", 1.0),
        ("base-s2", 1.2),
        ("a_heads_1-s1", 2.0),
        ("a_heads_1-s2", 3.0),
    ):
        reported(study, trial, {step: factor * value for step, value in FALLING.items()})
    return study


@pytest.mark.parametrize(
    ("option", "drawn"),
    [(["--curves"], "three: dev PPL"), (["--metric", "train/loss"], "three: train/loss")],
)
def test_curves_of_a_metric_are_drawn(study: Study, option: list[str], drawn: str) -> None:
    outcome = typed(study.folder.parents[1], "status", "sweep.name=three", *option)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.startswith(f"{drawn} over training steps.")
    assert outcome.stdout.splitlines()[-1].strip().startswith("Next: allelse table")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--metric", "train/los"], '--metric is "train/los"'),
        (["--metric", "train/los"], "report train/loss, dev/ppl did you mean train/loss?"),
        (["--curves", "--json"], "can't be combined use one"),
        (["--watch", "--json"], "can't be combined use one"),
    ],
)
def test_what_cannot_be_drawn_is_refused(study: Study, options: list[str], said: str) -> None:
    assert said in refusal(study.folder.parents[1], "status", "sweep.name=three", *options)
