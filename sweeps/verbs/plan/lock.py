"""``allelse plan --lock``: the metrics to lock, and what is printed."""

import os
from collections.abc import Sequence

from rich.markup import escape

from sweeps.config.schema import task_card
from sweeps.planning.plan import Plan
from sweeps.planning.plan_lock import OPTION, lock_plan
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.names import NameCheck
from tracking.card import Card
from tracking.study_lock import LOCK_FILE

ADVICE = "Commit it, or send it to somebody: on your own disk it proves nothing."


def refuse_options_without_lock(metrics: Sequence[str], sets: Sequence[str]) -> None:
    """Raises RefusedError for options that need the lock."""
    values_of_option = {"--metric": metrics, "--set": sets}
    typed = [option for option, values in values_of_option.items() if values]
    if typed:
        fix = f"add {OPTION}, or leave it out"
        raise RefusedError([Problem(option, "selects what to lock", fix) for option in typed])


def locked(plan: Plan, metrics: Sequence[str], sets: Sequence[str]) -> str:
    """Lock the plan's study with these metrics on these sets.

    Returns what to print. Raises RefusedError.
    """
    lock = lock_plan(plan, _locked_metrics(task_card(plan.task), metrics, sets))
    trials = f"{len(lock.trials)} trials of {len(lock.rows)} rows"
    scores = [f"{', '.join(names)} on {set_name}" for set_name, names in lock.metrics.items()]
    contents = "; ".join([trials, *scores])
    path = os.path.relpath(plan.folder / LOCK_FILE)
    return escape(f"Locked {contents}: {path}, digest {lock.digest}. {ADVICE}")


def _locked_metrics(
    card: Card, metrics: Sequence[str], sets: Sequence[str]
) -> dict[str, list[str]]:
    """The names of metrics by set: by default those of the table, each on its own set."""
    check = NameCheck()
    allowed = [metric.name for metric in card.metrics]
    names = check.existing("--metric", metrics, allowed, "metric of the task")
    for name in sets:
        if not name.strip() or not name.isprintable():
            problem = Problem("--set", f'is "{name}"', "must be the name of a set")
            check.problems.append(problem)
    check.refuse()
    locked_metrics = [metric for metric in card.metrics if metric.name in names]
    metrics_of_set: dict[str, list[str]] = {}
    for metric in locked_metrics or card.tabled:
        for set_name in sets or [metric.set]:
            metrics_of_set.setdefault(set_name, []).append(metric.name)
    return metrics_of_set
