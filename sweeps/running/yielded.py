"""What a task's work yields, checked: a mistake there fails the trial with its cause."""

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from tracking.artifacts import is_artifact_name, statistics_name, statistics_text

YIELDS = "Report, Checkpoint, Evaluation, Noticed or Costs"


class WrongYieldError(TypeError):
    """The work has yielded what the platform cannot use."""


def next_step(step: Any, before: int, kind: str) -> int:
    """The step as a whole number, if it follows the last one of its kind."""
    try:
        number = operator.index(step)
    except TypeError:
        raise WrongYieldError(f"a {kind} has step {step!r:.40}, which is not a whole number") from None
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
            raise WrongYieldError(f"{where} has {name} {value!r:.40}, which is not a number") from None
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


def samples_text(set_name: str, head: dict[str, Any], samples: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The file of a set's samples, by its path; none without samples."""
    lines = [_sample(sample, f"sample {place} of {set_name}") for place, sample in enumerate(samples, start=1)]
    if lines and not is_artifact_name(f"samples/{set_name}.jsonl"):
        raise WrongYieldError(f"the set {set_name} has samples, so its name must be a valid file name")
    return {statistics_name(set_name): statistics_text(head, lines)} if lines else {}


def _sample(sample: Any, where: str) -> dict[str, Any]:
    """Its numbers and lists of numbers, as plain Python."""
    if not isinstance(sample, Mapping):
        raise WrongYieldError(f"{where} must map names to numbers, but is {sample!r:.40}")
    several = {name: list(value) for name, value in sample.items() if isinstance(value, list | tuple)}
    single = numbers({name: value for name, value in sample.items() if name not in several}, where)
    lists = {name: [numbers({name: each}, where)[name] for each in of] for name, of in several.items()}
    return {str(name): lists.get(name, single.get(str(name))) for name in sample}
