"""``allelse evaluate`` of tasks without such a verb of their own: trials, settings and sets in one
table."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sweeps.problems import Problem, RefusedError, nearest
from sweeps.task import Metric, Trained

if TYPE_CHECKING:
    from sweeps.verbs.trained_trial import TrainedTrial

SetName = Annotated[str | None, typer.Option("--set", help="Only this set.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
TABLE_WIDTH = 120  # of a table in a file or a pipe
SETTINGS = "decode"
"""Where the scores of a set hold the settings that they were made with."""


@dataclass(frozen=True)
class Evaluation:
    """One trial on one set with the settings in its scores. ``now``: it was scored by this
    command."""

    trial: str
    set_name: str
    scores: Mapping[str, Any]
    now: bool

    @property
    def settings(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self.scores[SETTINGS]
        return settings


def evaluate(
    trials: Sequence[Trained[Any]], set_name: SetName = None, as_json: JsonOption = False
) -> int:
    """Score finished trials with other settings, and show every score. The trials keep their own
    results."""
    err = Console(stderr=True, highlight=False)
    out = Console(highlight=False)
    evaluations: list[Evaluation] = []
    trained_trials = cast("Sequence[TrainedTrial]", trials)
    _refuse_unknown_set(trained_trials, set_name)
    for trained in trained_trials:
        evaluations += _of_trial(trained, err)
    _tell_codes(trained_trials, err)
    if set_name is not None:
        evaluations = [evaluation for evaluation in evaluations if evaluation.set_name == set_name]
    if as_json:
        lines = [
            {"trial": each.trial, "set": each.set_name, **each.scores, "now": each.now}
            for each in evaluations
        ]
        print(json.dumps(lines, indent=1, ensure_ascii=False))
        return 0
    metrics = trained_trials[0].source.task.metrics
    out.print(_table(evaluations, metrics), width=None if out.is_terminal else TABLE_WIDTH)
    if read := sum(not evaluation.now for evaluation in evaluations):
        made_before = f"{read} of {len(evaluations)} scores were made before and are read from the trials' folders"
        out.print(made_before, style="dim", soft_wrap=True)
    return 0


def _of_trial(trained: "TrainedTrial", err: Console) -> Iterator[Evaluation]:
    from sweeps.verbs.scoring import (
        by_recorded_code,
        score,
        sets_of_other_code,
    )  # imports what a work needs

    trained = by_recorded_code(trained)
    before = {*trained.scored}
    needed = {metric.set for metric in trained.source.task.metrics if metric.tabled}
    if not needed <= before:
        with err.status(escape(f"{trained.name}: scoring")):
            score(
                trained, lambda text: err.print(escape(f"{trained.name}: {text}"), soft_wrap=True)
            )
    for name, scores in trained.scored.items():
        yield Evaluation(trained.name, name, scores, name not in before)
    if others := sets_of_other_code(trained):
        line = (
            f"{trained.name}: its scores on {', '.join(others)} are of other code than its training"
        )
        err.print(escape(line), style="yellow", soft_wrap=True)


def _tell_codes(trials: Sequence["TrainedTrial"], err: Console) -> None:
    """Say that each trial is scored by its own code, where these are not all one version."""
    names = {str(trained.provenance.get("code") or ""): trained.name for trained in trials}
    if len(names) > 1:
        line = (
            f"Different code trained {', '.join(names.values())}: each trial is scored by its own"
        )
        err.print(escape(line), style="yellow", soft_wrap=True)


def _refuse_unknown_set(trials: Sequence["TrainedTrial"], set_name: str | None) -> None:
    """Raises RefusedError, with the sets on which the trials have been scored."""
    results = [trained.result() for trained in trials]
    sets = list(dict.fromkeys(name for result in results for name in result["scores"]))
    if set_name is not None and set_name not in sets:
        allowed = f"must be one of {', '.join(sets)}"
        raise RefusedError([Problem("--set", f'is "{set_name}"', allowed, nearest(set_name, sets))])


def _table(evaluations: Sequence[Evaluation], metrics: Sequence[Metric]) -> Table:
    """A section per set, a line per trial and settings."""
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("set", no_wrap=True)
    shown.add_column("trial", overflow="fold")
    varied = varied_settings([evaluation.settings for evaluation in evaluations])
    if varied:
        shown.add_column("settings", overflow="fold")
    for metric in metrics:
        shown.add_column(metric.label, justify="right", no_wrap=True)
    sets = list(dict.fromkeys(evaluation.set_name for evaluation in evaluations))
    for name in sets:
        section = [evaluation for evaluation in evaluations if evaluation.set_name == name]
        for place, evaluation in enumerate(section):
            cells = [metric.text(evaluation.scores.get(metric.name)) for metric in metrics]
            words = [settings_text(evaluation.settings, varied)] if varied else []
            is_last = place + 1 == len(section)
            head = name if place == 0 else ""
            shown.add_row(head, escape(evaluation.trial), *words, *cells, end_section=is_last)
    return shown


def varied_settings(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that do not all have one value."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    return [name for name in names if len({repr(each.get(name)) for each in settings}) > 1]


def settings_text(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    """Such as "score.average 3"."""
    return ", ".join(f"{name} {settings.get(name, 'default')}" for name in names)
