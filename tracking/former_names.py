"""Names in the trial files of older versions, and the current name of each."""

from typing import Any

DECODE = {"average": "average_checkpoints"}
METRICS = {"train/utilisation": "train/mfu"}


def current_scores(scores: dict[str, Any]) -> dict[str, Any]:
    """One set's scores, with current names for its decode settings."""
    return scores | {"decode": _renamed(scores["decode"], DECODE)}


def current_metrics(metrics: dict[str, float]) -> dict[str, float]:
    """The metrics of one journal line, with current names."""
    return _renamed(metrics, METRICS)


def _renamed(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}
