"""Names that older versions wrote into a trial's files, as they are called now."""

from typing import Any

DECODE = {"average": "average_checkpoints"}
METRICS = {"train/utilisation": "train/mfu"}


def current_scores(scores: dict[str, Any]) -> dict[str, Any]:
    """One set's scores with its decode settings under current names."""
    return scores | {"decode": _renamed(scores["decode"], DECODE)}


def current_metrics(metrics: dict[str, float]) -> dict[str, float]:
    """The metrics of one journal line under current names."""
    return _renamed(metrics, METRICS)


def _renamed(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}
