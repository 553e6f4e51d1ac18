"""Studies of tasks other than translation, written by hand: what a platform without our model
leaves on disk."""

from pathlib import Path
from typing import Any

import yaml
from studies_on_disk import begin

from tracking.card import Card, Metric
from tracking.study import Study, StudyTrial, read_study, write_study
from tracking.trial import statistics_name, statistics_text

ACCURACY = Metric("accuracy", "accuracy", unit="0 to 1", better="up", decimals=3, set="test")
DIGITS = Card(
    "digits",
    1,
    (ACCURACY, Metric("loss", "loss", "nats", "down", set="test", tabled=False)),
    symbols={"hidden": "H", "depth": "L"},
    change_phrases={"norm": "{value} normalization"},
)
TAGGING = Card(
    "tagging",
    2,
    (
        Metric("f1", "F1 [micro]", "0 to 100", "up", 1, note="over tokens", signature="f1_version"),
        Metric("error", "error", "0 to 1", "down", 2, changed_by=("predict.threshold",)),
        Metric("accuracy", "accuracy", "0 to 1", "up", set="test"),
    ),
    setting_phrases={"predict.threshold": "threshold {value}", "predict.vote=1": "one vote"},
    scoring={key: key for key in ("predict.threshold", "predict.vote")},
    cost_notes={"seconds": "measured", "params": "counted", "flops": "computed"},
)
ROWS: dict[str, dict[str, Any]] = {
    "base": {"hidden": 64, "depth": 2},
    "wide": {"hidden": 128, "norm": "layer"},
}
COSTS = {"params": 4810, "flops": None, "seconds": 2.5}


def make(
    folder: Path, card: Card, rows: dict[str, dict[str, Any]], seeds: tuple[int, ...]
) -> Study:
    """`study.json`, and nothing of its trials."""
    groups = dict.fromkeys(rows, "size") | {"base": "base"}
    trials = tuple(
        StudyTrial(row, groups[row], f"change of {row}", seed, f"{folder.name}-{row}-{seed}", {})
        for row in rows
        for seed in seeds
    )
    write_study(Study(folder, trials, rows, (), seeds=seeds, task=card))
    return read_study(folder)


def train(study: Study, index: int, scores: dict[str, dict[str, Any]], **costs: Any) -> None:
    """Finish the trial at this place of the study."""
    trial = study.trials[index]
    folder = study.trial_folder(trial)
    attempt = begin(folder)
    settings = {"net": {"hidden": 64}, "predict": {"threshold": 0.5, "vote": 1}, "seed": trial.seed}
    paths = {"runs": "/r", "data": "/d", "checkpoints": None}
    identity = {"key": trial.key, "data_fingerprint": "f" * 64}
    folder.config_path.write_text(yaml.safe_dump({**settings, **identity, "paths": paths}), "utf-8")
    folder.report(attempt, 10, {"train/loss": 0.5, "checkpoint": 7.0}, checkpoint=10)
    head = {"key": trial.key, "row": trial.row, "seed": trial.seed, "step": 10, "attempt": attempt}
    scores = {name: {"decode": {}} | set_scores for name, set_scores in scores.items()}
    for name, set_scores in scores.items():
        folder.write_artifact(
            statistics_name(name), statistics_text(head | {"scores": set_scores}, [{"right": 1}])
        )
    folder.write_result({**head, **COSTS, **costs, "scores": scores})
    folder.attempts.end(attempt, "finished")


def digits(folder: Path, *accuracies: float) -> Study:
    """Two rows with two seeds each: as many are finished as there are accuracies."""
    study = make(folder, DIGITS, ROWS, (1, 2))
    for index, accuracy in enumerate(accuracies):
        train(study, index, {"test": {"accuracy": accuracy, "loss": 0.25, "decode": {}}})
    return study


def tagging(folder: Path, *settings: dict[str, Any]) -> Study:
    """Two rows with one seed, scored on two sets with these settings."""
    study = make(folder, TAGGING, {"base": {"depth": 2}, "deep": {"depth": 8, "norm": None}}, (1,))
    for index, decode in enumerate(settings):
        dev = {"f1": 91.25 - index, "f1_version": "v1", "error": 0.125, "decode": decode}
        train(
            study,
            index,
            {"dev": dev, "test": {"accuracy": 0.5 + index / 4}},
            params=None if index else 4810,
        )
    return study
