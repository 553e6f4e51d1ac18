"""Names in the trial files of older versions, and the current name of each."""

from typing import Any

from tracking.card import Card
from tracking.translation_card import TRANSLATION

DECODE = {"average": "average_checkpoints"}
METRICS = {"train/utilisation": "train/mfu"}


def current_scores(scores: dict[str, Any], card: Card) -> dict[str, Any]:
    """One set's scores, with current names for its decode settings; {} if they have none."""
    return scores | {"decode": _renamed(scores.get("decode", {}), DECODE, card)}


def current_line(line: dict[str, Any], card: Card) -> dict[str, Any]:
    """One line of the journal, with current names. Version 0.1.0 kept a checkpoint's step among the metrics."""
    metrics = _renamed(line["metrics"], METRICS, card)
    if card.name == TRANSLATION.name and "checkpoint" in metrics:
        line = line | {"checkpoint": int(metrics.pop("checkpoint"))}
    return line | {"metrics": metrics}


def _renamed(values: dict[str, Any], names: dict[str, str], card: Card) -> dict[str, Any]:
    """Other tasks are younger than every rename, and may have given these names to things of their own."""
    known = names if card.name == TRANSLATION.name else {}
    return {known.get(name, name): value for name, value in values.items()}
