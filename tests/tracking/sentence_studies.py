"""Studies whose trials keep counts of their samples: a made-up task with one formula of each simple
kind."""

import random
from pathlib import Path
from typing import Any

import other_tasks

from tracking.card import Card, Metric
from tracking.study import Study
from tracking.trial import statistics_name, statistics_text

RIGHT = Metric("accuracy", "accuracy", "0 to 1", from_counts=("mean", "right"))
LOSS = Metric(
    "loss",
    "loss",
    better="down",
    tabled=False,
    from_counts=("ratio", "nats", "tokens"),
    changed_by=(),
)
BARE = Metric("memory", "memory", "MB", "down")
CARD = Card("reading", 1, (RIGHT, LOSS, BARE), scoring={"predict.threshold": "predict.threshold"})
SAMPLES = 40


def lines(seed: int, chance: float) -> list[dict[str, Any]]:
    """Samples whose tokens are the same in every trial."""
    generator = random.Random(seed)
    return [
        {
            "right": int(generator.random() < chance),
            "nats": generator.uniform(1, 2) / chance,
            "tokens": 3 + index % 5,
        }
        for index in range(SAMPLES)
    ]


def scores(samples: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
    loss = sum(line["nats"] for line in samples) / sum(line["tokens"] for line in samples)
    accuracy = sum(line["right"] for line in samples) / len(samples)
    return {
        "accuracy": accuracy,
        "loss": loss,
        "memory": 5.0,
        "decode": {"predict.threshold": 0.5, **settings},
    }


def finish(study: Study, index: int, samples: list[dict[str, Any]], **settings: Any) -> None:
    """Finish the trial at this place with these samples."""
    scored = scores(samples, **settings)
    other_tasks.train(study, index, {"dev": scored})
    folder = study.trial_folder(study.trials[index])
    trial = study.trials[index]
    folder.write_artifact(
        statistics_name("dev"),
        statistics_text({"key": trial.key, "step": 10, "scores": scored}, samples),
    )


def make(folder: Path, rows: dict[str, float], seeds: tuple[int, ...] = (1, 2)) -> Study:
    """A finished study; each row with the chance that it is right."""
    study = other_tasks.make(
        folder, CARD, {row: {"depth": index} for index, row in enumerate(rows)}, seeds
    )
    for number, trial in enumerate(study.trials):
        finish(study, number, lines(100 * trial.seed + number, rows[trial.row]))
    return study
