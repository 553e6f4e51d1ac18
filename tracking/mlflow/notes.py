"""What MLflow says in words: the description of a run, a row and a study."""

from collections.abc import Sequence
from pathlib import Path

from tracking.card import Card, Metric
from tracking.statistics.findings import NONE, Findings
from tracking.statistics.rows import BASE, TableRow
from tracking.study import Study, Trial
from tracking.table import cells
from tracking.table.caption import caption
from tracking.words import number

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
    score = cells.score(card, row, metric)
    return [score] if row.row == findings.reference else [score, cells.delta(card, row, metric, findings)]


def study_note(study: Study, rows: Sequence[TableRow], findings: Findings) -> str:
    """Markdown: the table in short, what its columns and marks mean, and the commands that made the study."""
    card = study.task
    labels = [name for metric in card.tabled for name in (metric.label, f"Δ{metric.label}")]
    head = ["", "row", "change", *labels, "params", "seeds"]
    lines = [head, ["---"] * len(head), *(_short(card, row, findings) for row in rows)]
    table = "\n".join("| " + " | ".join(map(_escape, line)) + " |" for line in lines)
    again = "\n".join(["To reproduce:", "", "```", *dict.fromkeys(map(_command, study.asked)), "```"])
    text = "\n\n".join([_first_line(study, rows), table, caption(card, rows, findings), again])
    return _cut(text, LONGEST)


def _scored(card: Card, row: TableRow, name: str) -> str:
    """`PPL 6.11, +1.19 from base; published 6.11, +1.19.`"""
    metric = next(each for each in card.tabled if each.name == name)
    ours = f"{metric.label} {cells.score(card, row, metric)}"
    if row.row != BASE:
        ours += f", {cells.delta(card, row, metric, NONE)}" + (" from base" if row.deltas[name] is not None else "")
    paper = number(row.published.get(name), metric.places)
    theirs = cells.published_delta(row, metric) if row.row != BASE else ""
    return f"{ours}; published {', '.join(filter(None, [paper, theirs]))}." if paper else f"{ours}."


def _costs(card: Card, row: TableRow) -> list[str]:
    units = (" parameters", " FLOPs", "")
    return [f"{cost}{unit}" for cost, unit in zip(cells.costs(card, row), units, strict=True) if cost] or ["no costs"]


def _first_line(study: Study, rows: Sequence[TableRow]) -> str:
    """What MLflow shows before the note is opened."""
    base = next((row for row in rows if row.row == BASE and row.seeds), None)
    scores = ", ".join(
        f"{metric.label} {cells.score(study.task, base, metric)}" for metric in study.task.tabled if base
    )
    finished, asked = sum(row.seeds for row in rows), sum(row.asked for row in rows)
    parts = [f"{len(rows)} rows", f"{finished} of {asked} trials finished", *([f"base: {scores}"] if scores else [])]
    return f"**{study.name}**: {'; '.join(parts)}"


def _short(card: Card, row: TableRow, findings: Findings) -> list[str]:
    count = f"{row.seeds} of {row.asked}"
    if not row.seeds:
        status = row.status.partition(";")[0]
        return [row.group, row.row, row.change, status, *["–"] * (2 * len(card.tabled)), count]
    scored = [
        cell
        for metric in card.tabled
        for cell in (cells.score(card, row, metric), cells.delta(card, row, metric, findings))
    ]
    return [row.group, f"{row.row}{findings.row_mark(row)}", row.change, *scored, cells.costs(card, row)[0], count]


def _command(asked: dict[str, str]) -> str:
    """As typed, with the program's name for its path."""
    program, space, words = asked["command"].partition(" ")
    return f"{Path(program).name}{space}{words}"


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
