"""The required content of a trial's files. Each check returns the fault as a message, or None."""

from typing import Any

from tracking.card import COSTS, Card

NUMBERS = {int, float}
"""As JSON is parsed: true and false are neither."""
CONFIG_PATHS = ("runs", "data", "checkpoints")


def attempt_line(line: dict[str, Any]) -> str | None:
    """A line of ``attempts.jsonl``: the beginning or the end of an attempt."""
    if not (_whole(line.get("attempt")) and _number(line.get("ts"))):
        return "must have an attempt and its time, ts"
    if line.get("end"):
        return None if isinstance(line.get("reason"), str) else "must have the reason for the attempt's end"
    return None if isinstance(line.get("host"), str) and _whole(line.get("pid")) else "must have a host and a pid"


def journal_line(line: dict[str, Any]) -> str | None:
    """A line of ``journal.jsonl``."""
    metrics = line.get("metrics")
    if not (_whole(line.get("step")) and _whole(line.get("attempt")) and _number(line.get("ts"))):
        return "must have a step, an attempt and its time, ts"
    if not isinstance(metrics, dict) or not NUMBERS.issuperset(map(type, metrics.values())):
        return "must have metrics, each a number"
    if not (line.get("checkpoint") is None or _whole(line["checkpoint"])):
        return "must have a step, or nothing, as its checkpoint"
    return None


def statistics_head(line: dict[str, Any], card: Card) -> str | None:
    """The first line of ``statistics/<set>.jsonl``: key, step and scores."""
    if not isinstance(line.get("key"), str) or not _whole(line.get("step")):
        return "must have a key and a step"
    return _scores(line.get("scores"), card)


def result(content: dict[str, Any], card: Card) -> str | None:
    """``result.json``."""
    scores = content.get("scores")
    if not isinstance(content.get("key"), str) or not all(_whole(content.get(k)) for k in ("step", "attempt", "seed")):
        return "must have key, step, attempt and seed"
    if content.get("diverged") is not None and not _whole(content["diverged"]):
        return "must have a step, or nothing, as its diverged"
    if "steps" in content and not (_whole(content["steps"]) and content["steps"] > content["step"]):
        return "must have more steps than its step, or none"
    if wrong := [name for name in COSTS if not _measured(content.get(name))]:
        return f"{wrong[0]} must be a number"
    if not isinstance(scores, dict):
        return "must have scores"
    return next(filter(None, (_scores(of_set, card) for of_set in scores.values())), None)


def config(content: dict[str, Any], card: Card | None) -> str | None:
    """``config.yaml``. A file with a key was written by a sweep, which writes all groups, ``paths`` last."""
    groups = (*(card.groups if card else ()), "paths")
    if wrong := [name for name in groups if not isinstance(content.get(name, {}), dict)]:
        return f"{wrong[0]} must be a group of keys"
    if "key" not in content:
        return None
    if not all(isinstance(content.get(name), str) for name in ("key", "data_fingerprint")):
        return "must have key and data_fingerprint"
    missing = [name for name in groups if name not in content]
    missing += [f"paths.{name}" for name in CONFIG_PATHS if name not in content.get("paths", {})]
    return f"{missing[0]} is missing" if missing else None


def _scores(scores: Any, card: Card) -> str | None:
    if not isinstance(scores, dict) or not isinstance(scores.get("decode"), dict):
        return "must have scores with their decode settings"
    wrong = [metric.name for metric in card.metrics if not _measured(scores.get(metric.name))]
    return f"{wrong[0]} must be a number" if wrong else None


def _whole(value: Any) -> bool:
    return type(value) is int


def _number(value: Any) -> bool:
    return type(value) in NUMBERS


def _measured(value: Any) -> bool:
    """A number, or None where it was not finite."""
    return value is None or _number(value)
