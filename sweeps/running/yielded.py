"""What a task's work yields, checked: a mistake there fails the trial with its cause."""

import math
import operator
from collections.abc import Mapping
from typing import Any

from tracking.artifacts import is_artifact_name

YIELDS = "Report, Checkpoint, Evaluation, Noticed or Costs"


class WrongYieldError(TypeError):
    """The work has yielded what the platform cannot use."""


def next_step(step: Any, before: int, kind: str) -> int:
    """The step as a whole number, if it follows the last one of its kind."""
    try:
        number = operator.index(step)
    except TypeError:
        raise WrongYieldError(f"a {kind} has the step {step!r:.40}, which is no whole number") from None
    if number <= before:
        advice = "steps must increase, and a resumed trial must go on after trial.saved.step"
        raise WrongYieldError(f"a {kind} of step {number} follows that of step {before}, but {advice}")
    return number


def numbers(values: Mapping[str, Any], where: str) -> dict[str, float]:
    """The values by name, each a float."""
    found: dict[str, float] = {}
    for name, value in values.items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError):
            raise WrongYieldError(f"{where} has {name} {value!r:.40}, which is no number") from None
    return found


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Without values that no journal can hold."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def checked_artifacts(artifacts: Mapping[str, Any]) -> dict[str, str]:
    """The texts by path, each in a folder of its own: they replace none of the trial's files."""
    for name, text in artifacts.items():
        if not is_artifact_name(name):
            raise WrongYieldError(f"the artifact {name} must lie in a folder of its own, such as texts/scores.txt")
        if not isinstance(text, str):
            raise WrongYieldError(f"the artifact {name} must be text, not {type(text).__name__}")
    return dict(artifacts)
