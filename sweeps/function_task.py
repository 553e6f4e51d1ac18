"""A task from one function: its keyword parameters are the keys, and their defaults are base.

@task(Metric("accuracy", better="up", set="test"))
def spiral(trial, *, width: int = 32, lr: float = 0.01, steps: int = 400): ...
"""

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import field, fields, make_dataclass
from functools import partial
from typing import Annotated, Any, get_type_hints

from sweeps.fields import Range, Seed
from sweeps.task import Metric, Task, Trial

GROUP = "args"
"""The group of the keys: the parameter ``width`` is the key ``args.width``."""
SEED = "seed"
STEPS = "steps"
KINDS = (bool, int, float, str)
"""The types that a default may imply if a parameter has no annotation."""


def task(
    *metrics: Metric, name: str | None = None, version: int = 1, **options: Any
) -> Callable[[Callable[..., Any]], Task[Any]]:
    """Make a task from a function. The function gets the trial and the values of its keys.

    ``name`` defaults to the function's name. A parameter ``seed`` gets the trial's seed, and
    ``steps`` is the number of steps, at least one; without ``steps``, the task has one step. The
    function returns its scores: a number if there is only one metric, or numbers by metric name.
    ``options`` are other fields of `Task`, such as ``costs`` or ``verbs``; their functions get a
    configuration with the group ``args``.

    Raises TypeError if a parameter has no default, or no type.
    """

    def declared(function: Callable[..., Any]) -> Task[Any]:
        arguments = _arguments(function)
        schema = make_dataclass(function.__name__, [(GROUP, arguments)], frozen=True)
        return Task(
            name=name or function.__name__,
            version=version,
            schema=schema,
            metrics=metrics,
            steps=options.pop(STEPS, _steps),
            work=_work(function, metrics),
            base=schema(arguments()),
            **options,
        )

    return declared


def _arguments(function: Callable[..., Any]) -> type[Any]:
    """A dataclass whose fields are the function's parameters after the trial, with their
    defaults."""
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or not _takes_trial(parameters[0]):
        name = f"{function.__name__}()"
        raise TypeError(f"{name} must take the trial first: def {function.__name__}(trial, *, …)")
    keys = [
        (parameter.name, _type(function, parameter, hints), _default(parameter))
        for parameter in parameters[1:]
    ]
    return make_dataclass("Arguments", keys, frozen=True)


def _takes_trial(parameter: inspect.Parameter) -> bool:
    """Whether it is positional, and has no default: a key would have one."""
    is_positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return is_positional and parameter.default is parameter.empty


def _default(parameter: inspect.Parameter) -> Any:
    """The field with this default; each configuration has a list or a mapping of its own."""
    if isinstance(parameter.default, list | dict | set):
        return field(default_factory=partial(deepcopy, parameter.default))
    return field(default=parameter.default)


def _type(
    function: Callable[..., Any], parameter: inspect.Parameter, hints: Mapping[str, Any]
) -> Any:
    """The parameter's annotation, or the type of its default."""
    label = f"{function.__name__}(): parameter {parameter.name}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(f"{label} takes any number of keys; name each key")
    if parameter.default is parameter.empty:
        raise TypeError(f"{label} has no default, which would be its value in base")
    kind = hints.get(parameter.name)
    if kind is None:
        kind = next((kind for kind in KINDS if type(parameter.default) is kind), None)
    if kind is None:
        raise TypeError(f"{label} has no type; write one, such as {parameter.name}: int = 1")
    if parameter.name == SEED:
        return Annotated[kind, Seed()]
    return Annotated[kind, Range(1)] if parameter.name == STEPS and kind is int else kind


def _steps(config: Any) -> int:
    """The key ``steps``, or one step."""
    return int(getattr(config.args, STEPS, 1))


def _work(
    function: Callable[..., Any], metrics: tuple[Metric, ...]
) -> Callable[[Trial[Any]], None]:
    def work(trial: Trial[Any]) -> None:
        arguments = trial.config.args
        values = {key.name: getattr(arguments, key.name) for key in fields(arguments)}
        scores = function(trial, **values)
        if scores is not None:
            _keep_scores(trial, metrics, scores)

    return work


def _keep_scores(trial: Trial[Any], metrics: tuple[Metric, ...], scores: Any) -> None:
    """Keep what the function has returned, each metric on its set. Raises TypeError."""
    names = [metric.name for metric in metrics]
    if not isinstance(scores, Mapping):
        if len(names) != 1:
            raise TypeError(f"return numbers by name: {', '.join(names)}")
        scores = {names[0]: scores}
    unknown = sorted(set(scores) - set(names))
    if unknown:
        raise TypeError(f"{unknown[0]} is not a metric of the task, which has {', '.join(names)}")
    by_set: dict[str, dict[str, Any]] = {}
    for metric in metrics:
        if metric.name in scores:
            by_set.setdefault(metric.set, {})[metric.name] = scores[metric.name]
    for set_name, values in by_set.items():
        trial.evaluated(set_name, values)
