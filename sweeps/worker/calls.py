"""Check the arguments of a task's calls on its trial: a mistake there fails the trial with its
cause."""

import json
import math
import operator
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sweeps.config.schema import Schema
from sweeps.processes.events import Evaluated, Head
from sweeps.task import Costs, Task
from tracking.trial import is_artifact_name, statistics_name, statistics_text
from tracking.uri import without_password

NAME_BYTES = 200
"""Of a file's name: a filesystem takes 255, and a temporary file has a longer one."""
ONE_WORKER = (
    "random=True keeps the random numbers of one worker, but this trial has several: "
    "draw them from trial.seed, trial.rank and the step"
)


class WrongCallError(TypeError):
    """The work called its trial with an argument that the platform cannot use."""


def printable(text: str) -> str:
    """The text with unprintable characters escaped, and without the secrets that this node
    knows."""
    return without_password("".join(map(_printable_letter, text)))


def _printable_letter(letter: str) -> str:
    return letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1]


def cause(error: BaseException) -> str:
    """The kind of an error and the first line of its message."""
    try:
        text = str(error)
    except Exception:  # the user's class may raise anything
        text = "its message cannot be read"
    return printable(f"{type(error).__name__}: {text}".splitlines()[0])


def name(value: Any, subject: str) -> str:
    """The name of a metric or a set, which files and MLflow hold."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise WrongCallError(f"{subject} has the name {value!a:.60}, which must be printable text")
    return value


def next_step(step: Any, last_step: int, call: str, again: bool = False) -> int:
    """The step as an int, if it follows ``last_step``; with ``again``, it may equal it. Raises
    WrongCallError.

    ``call`` is the word for it in messages, such as "report".
    """
    try:
        number = operator.index(step)
    except TypeError:
        raise WrongCallError(
            f"a {call} has step {step!r:.40}, which is not a whole number"
        ) from None
    if number < last_step or (number == last_step and not again):
        advice = "steps must increase, and a resumed trial must continue after trial.saved.step"
        raise WrongCallError(
            f"a {call} of step {number} follows that of step {last_step}, but {advice}"
        )
    return number


def numbers(values: Mapping[str, Any], subject: str, texts: Collection[str] = ()) -> dict[str, Any]:
    """The values by name, each an int or a float, or text where the name is among ``texts``."""
    checked: dict[str, Any] = {}
    for key, value in values.items():
        checked_name = name(key, subject)
        if key in texts and isinstance(value, str):
            checked[checked_name] = printable(value)
        else:
            checked[checked_name] = _number(value, f"{subject} has {key}")
    return checked


def _number(value: Any, subject: str) -> int | float:
    try:
        return value if type(value) is int else float(value)
    except (TypeError, ValueError, RuntimeError):
        raise WrongCallError(f"{subject} {value!r:.40}, which is not a number") from None


def checked_costs(costs: Costs) -> Costs:
    """The costs as plain numbers."""
    known_costs = {key: cost for key, cost in vars(costs).items() if cost is not None}
    return Costs(**numbers(known_costs, "the costs"))


def plain(entries: Mapping[str, Any], subject: str) -> dict[str, Any]:
    """Entries that JSON can hold, unchanged."""
    try:
        text = json.dumps(entries, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise WrongCallError(f"{subject} must hold plain values: {printable(str(error))}") from None
    return dict(entries)


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics without NaN and infinity, which no journal can hold."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def checked_artifacts(artifacts: Mapping[str, Any]) -> dict[str, str]:
    """The texts by path, each in a folder of its own: they replace none of the trial's files."""
    for path, text in artifacts.items():
        if not is_artifact_name(path):
            raise WrongCallError(f"the text {path!a} must be in a folder, such as texts/scores.txt")
        if not _is_short(path):
            raise WrongCallError(
                f"the text {path:.40} has a name that is too long: at most {NAME_BYTES} bytes"
            )
        if not isinstance(text, str):
            raise WrongCallError(f"the text {path} must be text, not {type(text).__name__}")
        if not _is_unicode(text):
            raise WrongCallError(
                f"the text {path} has a lone surrogate, which can't be written to a file"
            )
    return dict(artifacts)


def _is_short(path: str) -> bool:
    return all(len(part.encode()) <= NAME_BYTES for part in path.split("/"))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class Call:
    """The arguments of one call of ``evaluated``; ``on`` is the name of the set."""

    on: str
    scores: Mapping[str, Any]
    texts: Mapping[str, str]
    samples: Iterable[Mapping[str, Any]]


def evaluation(task: Task[Any], config: Any, call: Call, head: Head) -> Evaluated:
    """The call as an event, with the texts and the statistics that are to be kept. Raises
    WrongCallError.

    ``head`` begins the first line of the statistics: key, step and attempt of the weights.
    """
    set_name = name(call.on, "an evaluated set")
    text_scores = [text for metric in task.metrics for text in metric.texts]
    measured = numbers(call.scores, f"the evaluation of {set_name}", text_scores)
    scores = {**measured, "decode": Schema.of(task).scoring(config)}
    artifacts = checked_artifacts(call.texts) | samples_text(
        set_name, head | {"scores": scores}, call.samples
    )
    return Evaluated(head["step"], set_name, scores, artifacts)


def missing_score(task: Task[Any], scores: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The fault of work that ended without a score that the table shows; None if it has all."""
    for metric in task.metrics:
        if metric.tabled and metric.name not in scores.get(metric.set, {}):
            return f"work ended without {metric.name} of {metric.set}, which the table shows"
    return None


def has_diverged(task: Task[Any], config: Any, scores: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether training diverged: a tabled score is missing or not finite, or the task's own rule
    says so."""
    flat: dict[str, Any] = {}
    for set_name, set_scores in scores.items():
        flat |= {f"{set_name}/{metric}": value for metric, value in set_scores.items()}
    tabled = [flat.get(f"{metric.set}/{metric.name}") for metric in task.metrics if metric.tabled]
    is_lost = any(value is None or not math.isfinite(value) for value in tabled)
    return is_lost or task.diverged(config, flat)


def samples_text(set_name: str, head: Head, samples: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The file of a set's samples, by its path; none without samples."""
    lines = [
        _sample(sample, f"sample {number} of {set_name}")
        for number, sample in enumerate(samples, start=1)
    ]
    if lines and not (is_artifact_name(f"samples/{set_name}.jsonl") and _is_short(set_name)):
        raise WrongCallError(
            f"the set {set_name} has samples, so its name must be a valid file name"
        )
    if not lines:
        return {}
    return {statistics_name(set_name): statistics_text(head, lines)}


def _sample(sample: Any, subject: str) -> dict[str, Any]:
    """Its numbers and lists of numbers, as plain Python."""
    if not isinstance(sample, Mapping):
        raise WrongCallError(f"{subject} must map names to numbers, but is {sample!r:.40}")
    return {
        name(key, subject): _numbers(value, f"{subject} has {key}") for key, value in sample.items()
    }


def _numbers(value: Any, subject: str) -> Any:
    """A number, or a list of them."""
    if isinstance(value, list | tuple):
        return [_number(item, subject) for item in value]
    return _number(value, subject)
