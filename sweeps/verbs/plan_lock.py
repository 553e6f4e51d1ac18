"""``allelse plan --lock``: what is locked of metrics, and what is printed of it."""

import os
from collections.abc import Sequence

from rich.markup import escape

from sweeps.config.schema import task_card
from sweeps.planning.plan import Plan
from sweeps.planning.plan_lock import OPTION, lock_plan
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.command import Checked
from tracking.card import Card
from tracking.study_lock import LOCK_FILE

ADVICE = "Commit it, or send it to somebody: on your disk alone it proves nothing."


def refuse_options_without_lock(metrics: Sequence[str], sets: Sequence[str]) -> None:
    """Raises RefusedError for options that only the lock takes."""
    typed = {"--metric": metrics, "--set": sets}
    unused = [name for name, values in typed.items() if values]
    if unused:
        allowed = f"add {OPTION}, or leave it out"
        raise RefusedError([Problem(name, "says what is locked", allowed) for name in unused])


def locked(plan: Plan, metrics: Sequence[str], sets: Sequence[str]) -> str:
    """Lock the plan's study with these metrics on these sets; returns what to print. Raises
    RefusedError."""
    lock = lock_plan(plan, _locked_metrics(task_card(plan.task), metrics, sets))
    place = os.path.relpath(plan.folder / LOCK_FILE)
    of_sets = [f"{', '.join(names)} on {set_name}" for set_name, names in lock.metrics.items()]
    number = f"{len(lock.trials)} trials of {len(lock.rows)} rows"
    return escape(f"Locked {number}; {'; '.join(of_sets)}: {place}, digest {lock.digest}. {ADVICE}")


def _locked_metrics(
    card: Card, metrics: Sequence[str], sets: Sequence[str]
) -> dict[str, list[str]]:
    """The names of metrics by set: by default those of the table, each on its own set."""
    checked = Checked()
    names = checked.known(
        "--metric", metrics, [metric.name for metric in card.metrics], "metric of the task"
    )
    blank = [name for name in sets if not name.strip() or not name.isprintable()]
    checked.problems += [
        Problem("--set", f'is "{name}"', "must be the name of a set") for name in blank
    ]
    checked.refuse()
    chosen = [metric for metric in card.metrics if metric.name in names] or list(card.tabled)
    metrics_of_set: dict[str, list[str]] = {}
    for metric in chosen:
        for set_name in sets or [metric.set]:
            metrics_of_set.setdefault(set_name, []).append(metric.name)
    return metrics_of_set
