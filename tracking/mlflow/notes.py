"""What MLflow says in words: the description of a run, a row and a study."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tracking.card import Card, Metric
from tracking.statistics.findings import Findings
from tracking.statistics.rows import BASE, TableRow
from tracking.study import Study, Trial
from tracking.table.caption import caption
from tracking.table.columns import columns_of
from tracking.table.layout import brief
from tracking.table.text import TextTable, markdown

NOTE = "mlflow.note.content"
LONGEST = 20_000  # characters of an experiment's tag
LONGEST_OF_RUN = 8_000


def run_note(study: Study, trial: Trial, row: TableRow) -> str:
    """Markdown: the row, its result, those of base and the published one, and its costs."""
    name = f"**{trial.row}**" if trial.group == trial.row else f"**{trial.group}, {trial.row}**"
    about = f"{name}, seed {trial.seed} of study {study.name}: {trial.change}".rstrip(": ")
    lines = [f"{about}."]
    if row.seeds:
        lines += [f"- {_scored(study.task, row, metric.name)}" for metric in study.task.tabled]
        lines += [f"- {', '.join(_costs(study.task, row))}."]
    if row.note:
        lines += [f"- {row.note}."]
    return _cut("\n".join(lines), LONGEST_OF_RUN)


def row_words(card: Card, row: TableRow, findings: Findings) -> dict[str, str]:
    """Such as "91.7 ± 0.4, +1.2*" for each metric of the table: over the row's seeds, and its difference from base."""
    return {metric.name: ", ".join(_of_row(card, row, metric, findings)) for metric in card.tabled if row.seeds}


def _of_row(card: Card, row: TableRow, metric: Metric, findings: Findings) -> list[str]:
    """Score and difference; base has no difference."""
    known = columns_of(card, [row], findings)
    lost = f" ({len(row.diverged)} of {row.seeds + len(row.diverged)} diverged)" if row.diverged else ""
    score = known[metric.name].text(row) + lost
    return [score] if row.row == findings.reference else [score, known[f"delta_{metric.name}"].text(row)]


def study_note(study: Study, rows: Sequence[TableRow], findings: Findings) -> str:
    """Markdown: the table in short, what its columns and marks mean, and the commands that made the study."""
    card, known = study.task, columns_of(study.task, rows, findings)
    scores = [known[f"{kind}{metric.name}"] for metric in card.tabled for kind in ("", "delta_")]
    seeds = replace(known["seeds"], text=_seeds)
    columns = (known["row"], known["change"], *scores, known["params"], seeds)
    lines = tuple(brief(card, columns, row) for row in rows)
    table = TextTable(study.name, columns, lines, tuple(row.group for row in rows), caption(card, rows, findings))
    again = "\n".join(["To reproduce:", "", "```", *dict.fromkeys(map(_command, study.asked)), "```"])
    return _cut(f"{_first_line(study, rows)}\n\n{markdown(table)}\n{again}", LONGEST)


def _seeds(row: TableRow) -> str:
    """Such as "3 of 3, 1 diverged"."""
    finished = f"{row.seeds + len(row.diverged)} of {row.asked}"
    return f"{finished}, {len(row.diverged)} diverged" if row.diverged else finished


def _scored(card: Card, row: TableRow, name: str) -> str:
    """`PPL 6.11, +1.19 from base's mean; published 6.11, +1.19.`"""
    metric = next(each for each in card.tabled if each.name == name)
    known = columns_of(card, [row])
    ours = f"{metric.label} {known[name].text(row)}"
    if row.row != BASE:
        ours += f", {known[f'delta_{name}'].text(row)}" + (" from base's mean" if row.deltas[name] is not None else "")
    paper = known[f"paper_{name}"].text(row)
    theirs = known[f"paper_delta_{name}"].text(row) if row.row != BASE else ""
    return f"{ours}; published {', '.join(filter(None, [paper, theirs]))}." if paper else f"{ours}."


def _costs(card: Card, row: TableRow) -> list[str]:
    known, units = columns_of(card, [row]), {"params": " parameters", "flops": " FLOPs", "seconds": ""}
    return [f"{cost}{unit}" for name, unit in units.items() if (cost := known[name].text(row))] or ["no costs"]


def _first_line(study: Study, rows: Sequence[TableRow]) -> str:
    """What MLflow shows before the note is opened."""
    base = next((row for row in rows if row.row == BASE and row.seeds), None)
    known = columns_of(study.task, rows)
    scores = ", ".join(f"{of.label} {known[of.name].text(base)}" for of in study.task.tabled if base)
    diverged, asked = sum(len(row.diverged) for row in rows), sum(row.asked for row in rows)
    finished = f"{sum(row.seeds for row in rows) + diverged} of {asked} trials finished"
    parts = [f"{len(rows)} rows", finished, f"{diverged} diverged" * (diverged > 0), f"base: {scores}" * bool(scores)]
    return f"**{study.name}**: {'; '.join(filter(None, parts))}"


def _command(asked: dict[str, str]) -> str:
    """As typed, with the program's name for its path."""
    program, space, words = asked["command"].partition(" ")
    return f"{Path(program).name}{space}{words}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
