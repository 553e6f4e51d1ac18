"""``allelse evaluate`` for tasks without a verb of that name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.console import ERR, OUT, print_json, print_line
from sweeps.problems import Typo, refusal
from sweeps.task import Metric, Trained
from sweeps.verbs.command import Json
from tracking.words import without_study

if TYPE_CHECKING:
    from sweeps.verbs.trained.trained_trial import TrainedTrial

SetName = Annotated[str | None, typer.Option("--set", help="Show only this set.")]
SETTINGS = "decode"
"""The key of a set's scores that holds the settings for scoring."""


@dataclass(frozen=True)
class Evaluation:
    """The scores of one trial on one set, with their settings.

    ``is_new``: this command scored it.
    """

    trial: str
    set_name: str
    scores: Mapping[str, Any]
    is_new: bool

    @property
    def settings(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self.scores[SETTINGS]
        return settings

    def as_json(self) -> dict[str, Any]:
        return {"trial": self.trial, "set": self.set_name, **self.scores, "now": self.is_new}


def evaluate(
    trials: Sequence[Trained[Any]], set_name: SetName = None, as_json: Json = False
) -> int:
    """Score finished trials with different settings, and show every score.

    The trials keep their own results.
    """
    trained_trials = cast("Sequence[TrainedTrial]", trials)
    _refuse_unknown_set(trained_trials, set_name)
    evaluations: list[Evaluation] = []
    for trained in trained_trials:
        evaluations += _evaluations_of(trained)
    _print_different_codes(trained_trials)
    if set_name is not None:
        evaluations = [evaluation for evaluation in evaluations if evaluation.set_name == set_name]
    if as_json:
        print_json([evaluation.as_json() for evaluation in evaluations])
        return 0
    metrics = trained_trials[0].source.task.metrics
    OUT.print(_table(evaluations, metrics))
    old = sum(not evaluation.is_new for evaluation in evaluations)
    if old:
        origin = "were made before and are read from the trials' folders"
        print_line(OUT, f"{old} of {len(evaluations)} scores {origin}", "dim")
    return 0


def _evaluations_of(trained: "TrainedTrial") -> Iterator[Evaluation]:
    """The scores of the trial, after scoring the sets that lack any."""
    # Imports what the work of a task needs.
    from sweeps.verbs.trained.scoring import by_recorded_code, score, sets_of_other_code

    def print_notice(text: str) -> None:
        print_line(ERR, f"{trained.name}: {text}")

    trained = by_recorded_code(trained)
    old_sets = {*trained.scored}
    needed_sets = {metric.set for metric in trained.source.task.metrics if metric.tabled}
    if not needed_sets <= old_sets:
        with ERR.status(escape(f"{trained.name}: scoring")):
            score(trained, print_notice)
    for set_name, scores in trained.scored.items():
        yield Evaluation(trained.name, set_name, scores, set_name not in old_sets)
    sets = sets_of_other_code(trained)
    if sets:
        names = ", ".join(sets)
        _warn(f"{trained.name}: its scores on {names} are not from the code that trained it")


def _print_different_codes(trials: Sequence["TrainedTrial"]) -> None:
    """Print that each trial is scored by its own code, unless all have the same code."""
    names = {str(trained.provenance.get("code") or ""): trained.name for trained in trials}
    if len(names) > 1:
        trial_names = ", ".join(names.values())
        _warn(f"Different code trained {trial_names}: each trial is scored by its own")


def _warn(line: str) -> None:
    print_line(ERR, line, "yellow")


def _refuse_unknown_set(trials: Sequence["TrainedTrial"], set_name: str | None) -> None:
    """Raises RefusedError with the sets on which the trials have been scored."""
    sets: dict[str, None] = {}
    for trained in trials:
        sets |= dict.fromkeys(trained.result()["scores"])
    if set_name is not None and set_name not in sets:
        allowed = f"must be one of {', '.join(sets)}"
        raise refusal("--set", f'is "{set_name}"', allowed, Typo(set_name, tuple(sets)))


def _table(evaluations: Sequence[Evaluation], metrics: Sequence[Metric]) -> Table:
    """A section for each set, a line for each trial and settings."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("set\n  trial", overflow="fold")
    varied = varied_settings([evaluation.settings for evaluation in evaluations])
    if varied:
        table.add_column("settings", overflow="fold")
    for metric in metrics:
        table.add_column(metric.label, justify="right", no_wrap=True)
    shown_names = without_study(evaluation.trial for evaluation in evaluations)
    for set_name in dict.fromkeys(evaluation.set_name for evaluation in evaluations):
        table.add_row(set_name)
        for evaluation in evaluations:
            if evaluation.set_name != set_name:
                continue
            cells = [metric.text(evaluation.scores.get(metric.name)) for metric in metrics]
            if varied:
                cells = [settings_text(evaluation.settings, varied), *cells]
            table.add_row(f"  {escape(shown_names[evaluation.trial])}", *cells)
        table.add_section()
    return table


def varied_settings(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that do not all have the same value."""
    names = dict.fromkeys(name for mapping in settings for name in mapping)
    varied: list[str] = []
    for name in names:
        values = {repr(mapping.get(name)) for mapping in settings}
        if len(values) > 1:
            varied.append(name)
    return varied


def settings_text(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    """Such as "score.average 3"."""
    return ", ".join(f"{name} {settings.get(name, 'default')}" for name in names)
