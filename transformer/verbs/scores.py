"""Evaluations as a table for a terminal, and as JSON for scripts."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.task import Metric, Numbers
from transformer.card import CARD
from transformer.verbs.evaluating import Evaluation


def scores_table(evaluations: list[Evaluation]) -> Table:
    """One section per set, one line per trial; the best value of each column is bold."""
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("set", no_wrap=True)
    shown.add_column("trial", overflow="fold")
    for metric in CARD.printed:
        shown.add_column(metric.label.replace(" ", "\n"), justify="right", no_wrap=True)
    shown.add_column("lines", justify="right", no_wrap=True)
    by_set = sorted(evaluations, key=lambda each: [e.set_name for e in evaluations].index(each.set_name))
    for name, section in groupby(by_set, key=lambda each: each.set_name):
        lines = list(section)
        for place, line in enumerate(lines):
            cells = [_cell(line, metric, lines) for metric in CARD.printed]
            head = name if place == 0 else ""
            last = place + 1 == len(lines)
            shown.add_row(head, escape(line.trial.name), *cells, str(line.sentences), end_section=last)
    return shown


def scores_json(evaluations: list[Evaluation]) -> list[dict[str, Any]]:
    return [
        {
            "trial": line.trial.name,
            "set": line.set_name,
            "step": line.trial.step,
            "sentences": line.sentences,
            **line.scores,
            "hypotheses": str(line.hypotheses),
            "decoded": line.decoded,
        }
        for line in evaluations
    ]


def notes(evaluations: list[Evaluation]) -> list[str]:
    """How to read the numbers, one line per note: signatures, decode settings, reused evaluations."""
    lines = [f"{metric.label}: {metric.unit}" for metric in CARD.printed if metric.signature is None]
    lines += [f"{label}: {each}" for label, each in signatures(line.scores for line in evaluations)]
    for settings in dict.fromkeys(tuple(line.scores["decode"].items()) for line in evaluations):
        lines.append("decode: " + ", ".join(f"{key} {value}" for key, value in settings))
    kept = sum(not line.decoded for line in evaluations)
    if kept:
        lines.append(f"{kept} of {len(evaluations)} evaluations were made before and are read from the trials' folders")
    return lines


def signatures(scores: Iterable[Numbers]) -> list[tuple[str, str]]:
    """Each metric's label and signature, as the sets' scores have them; every pair once, in their order."""
    found, metrics = [CARD.scores(each).signatures for each in scores], CARD.metrics
    named = ((metric.label, each[metric.name]) for metric in metrics for each in found if metric.name in each)
    return list(dict.fromkeys(named))


def _cell(line: Evaluation, metric: Metric, section: list[Evaluation]) -> str:
    values = [CARD.scores(each.scores).values[metric.name] for each in section]
    value = CARD.scores(line.scores).values[metric.name]
    best = len(section) > 1 and value is not None and value == metric.best(values)
    return f"[bold]{metric.text(value)}[/]" if best else metric.text(value)
