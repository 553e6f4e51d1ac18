"""Evaluations as a table for a terminal, and as JSON for scripts."""

from itertools import groupby
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.trained.evaluate import Evaluation
from tracking.formats import number

COLUMNS = {"ppl": ("PPL", 2), "bleu": ("BLEU", 2), "bleu_paper": ("BLEU paper", 2), "chrf": ("chrF", 2)}
SIGNATURES = {"BLEU": "signature", "BLEU paper": "bleu_paper_signature", "chrF": "chrf_signature"}


def scores_table(evaluations: list[Evaluation]) -> Table:
    """One section per set, one line per trial; the best value of each column is bold."""
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("set", no_wrap=True)
    shown.add_column("trial", overflow="fold")
    for title, _ in COLUMNS.values():
        shown.add_column(title.replace(" ", "\n"), justify="right", no_wrap=True)
    shown.add_column("lines", justify="right", no_wrap=True)
    by_set = sorted(evaluations, key=lambda each: [e.set_name for e in evaluations].index(each.set_name))
    for name, section in groupby(by_set, key=lambda each: each.set_name):
        lines = list(section)
        for place, line in enumerate(lines):
            cells = [_cell(line, key, lines) for key in COLUMNS]
            head = name if place == 0 else ""
            last = place + 1 == len(lines)
            shown.add_row(head, escape(line.trial.name), *cells, str(line.sentences), end_section=last)
    return shown


def scores_json(evaluations: list[Evaluation]) -> list[dict[str, Any]]:
    return [
        {
            "trial": line.trial.name,
            "set": line.set_name,
            "step": line.trial.result()["step"],
            "sentences": line.sentences,
            **line.scores,
            "hypotheses": str(line.hypotheses),
            "decoded": line.decoded,
        }
        for line in evaluations
    ]


def notes(evaluations: list[Evaluation]) -> list[str]:
    """How to read the numbers, one line per note: signatures, decode settings, reused evaluations."""
    lines = ["PPL: e^(nats per target piece), end-of-sentence included"]
    for name, key in SIGNATURES.items():
        lines += [f"{name}: {each}" for each in dict.fromkeys(line.scores[key] for line in evaluations)]
    for settings in dict.fromkeys(tuple(line.scores["decode"].items()) for line in evaluations):
        lines.append("decode: " + ", ".join(f"{key} {value}" for key, value in settings))
    kept = sum(not line.decoded for line in evaluations)
    if kept:
        lines.append(f"{kept} of {len(evaluations)} evaluations were made before and are read from the trials' folders")
    return lines


def _cell(line: Evaluation, key: str, section: list[Evaluation]) -> str:
    text = number(line.scores[key], COLUMNS[key][1])
    values = [other.scores[key] for other in section]
    best = min(values) if key == "ppl" else max(values)
    return f"[bold]{text}[/]" if len(section) > 1 and line.scores[key] == best else text
