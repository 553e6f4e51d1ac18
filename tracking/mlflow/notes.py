"""What MLflow's pages say: the descriptions of a run, a row and a study, and the files of their runs."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from tracking.card import Card, Metric
from tracking.files import read_whole, unless_damaged
from tracking.journal import JournalLine
from tracking.mlflow.names import points_in
from tracking.statistics.findings import Findings
from tracking.statistics.rows import BASE, TableRow
from tracking.study import Study, Trial
from tracking.table.caption import caption
from tracking.table.columns import columns_of
from tracking.table.layout import brief, written
from tracking.table.text import TextTable, markdown
from tracking.trial import TAKEN, TrialFolder
from tracking.uri import shown_tree, without_password

NOTE = "mlflow.note.content"
LONGEST, LONGEST_OF_RUN = 20_000, 8_000  # characters of a tag of an experiment, and of a run
SAMPLES = "samples.json"  # at one path in all runs, so that MLflow shows them side by side
TABLES = json.dumps([{"path": SAMPLES, "type": "table"}])
"""The tag by which MLflow finds the tables of a run, `mlflow.loggedArtifacts`."""
MOST_LINES = 100  # per set


def run_note(study: Study, trial: Trial, row: TableRow) -> str:
    """Markdown: the row, its result, those of base and the published one, and its costs."""
    name = f"**{trial.row}**" if trial.group == trial.row else f"**{trial.group}, {trial.row}**"
    about = f"{name}, seed {trial.seed} of study {study.name}: {trial.change}".rstrip(": ")
    lines = [f"{about}."]
    if row.seeds:
        lines += [f"- {_scored(study.task, row, metric)}" for metric in study.task.tabled]
        lines += [f"- {', '.join(_costs(study.task, row))}."]
    if row.note:
        lines += [f"- {row.note}."]
    return _cut("\n".join(lines), LONGEST_OF_RUN)


def _scored(card: Card, row: TableRow, metric: Metric) -> str:
    """`PPL 6.11, +1.19 from base's mean; published 6.11, +1.19.`"""
    known, name = columns_of(card, [row]), metric.name
    ours = [known[name].text(row)]
    theirs = [known[f"paper_{name}"].text(row)]
    if row.row != BASE:
        ours += [known[f"delta_{name}"].text(row) + " from base's mean" * (row.deltas[name] is not None)]
        theirs += [known[f"paper_delta_{name}"].text(row)]
    published = f"; published {', '.join(filter(None, theirs))}" if theirs[0] else ""
    return f"{metric.label} {', '.join(ours)}{published}."


def _costs(card: Card, row: TableRow) -> list[str]:
    known, units = columns_of(card, [row]), {"params": " parameters", "flops": " FLOPs", "seconds": ""}
    return [f"{cost}{unit}" for name, unit in units.items() if (cost := known[name].text(row))] or ["no costs"]


def row_words(card: Card, row: TableRow, findings: Findings) -> dict[str, str]:
    """Such as "91.7 ± 0.4, +1.2▲" for each metric of the table: over the row's seeds, and its difference from base."""
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


def run_files(folder: TrialFolder, lives: bool) -> dict[str, str]:
    """The artifacts by path. What still changes while the trial runs is left out until it ends; so is what is damaged,
    since the rest of the page is of use without it."""
    config = unless_damaged(folder.config, None)
    found = {folder.provenance_path.name: without_password(_text(folder.provenance_path))}
    if config is not None:
        found[folder.config_path.name] = yaml.safe_dump(shown_tree(config), sort_keys=False, allow_unicode=True)
    if not lives:
        found |= {
            "curve.csv": curve(folder, unless_damaged(folder.journal, [])),
            SAMPLES: samples(folder),
            "error.txt": unless_damaged(folder.error, None) or "",
        }
    return {path: text for path, text in found.items() if text}


def curve(folder: TrialFolder, journal: Sequence[JournalLine]) -> str:
    """The journal as CSV: a line per report, a column per metric, named as in MLflow; "" without reports."""
    lines = [{"step": report.step, **points_in(folder.card, report)} for report in journal]
    text = io.StringIO()
    writer = csv.DictWriter(text, dict.fromkeys(name for line in lines for name in line), lineterminator="\n")
    if lines:
        writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def samples(folder: TrialFolder) -> str:
    """The first lines of the trial's texts of each set, as MLflow's table; "" without texts.

    Columns: the sample, such as `dev 001`, and each folder of texts, such as `answers`. MLflow's comparison groups
    by the first column and shows the second.
    """
    kinds = sorted(path.name for path in folder.path.glob("*/") if path.name not in TAKEN and any(path.glob("*.txt")))
    sets = list(dict.fromkeys(path.stem for kind in kinds for path in sorted((folder.path / kind).glob("*.txt"))))
    rows = [row for name in sets for row in _rows(folder.path, kinds, name)]
    return json.dumps({"columns": ["sample", *kinds], "data": rows}, ensure_ascii=False) if rows else ""


def _rows(folder: Path, kinds: Sequence[str], name: str) -> list[list[str]]:
    texts = [_text(folder / kind / f"{name}.txt").splitlines() for kind in kinds]
    count = min(MOST_LINES, max(map(len, texts)))
    return [[f"{name} {at + 1:03d}", *(text[at] if at < len(text) else "" for text in texts)] for at in range(count)]


def _text(path: Path) -> str:
    """Empty without the file, and for one that cannot be read."""
    return (unless_damaged(lambda: read_whole(path), None) or b"").decode("utf-8", errors="replace")


def study_files(study: Study, rows: Sequence[TableRow], findings: Findings) -> dict[str, str]:
    """The files of the study's run, by their paths: those of `allelse table`, and those of `allelse report` if it is
    complete."""
    return {
        "table.md": written("md", study, rows, findings=findings),
        "table.csv": written("csv", study, rows, findings=findings),
        **(_report(study) if _complete(study, rows) else {}),
    }


def _report(study: Study) -> Mapping[str, str]:
    from tracking.report.page import page, whole_content  # matplotlib, only where something is drawn

    content = whole_content(study)
    figures = {f"figures/{figure.name}.svg": figure.content("svg").decode() for figure in content.figures.all}
    return {"report.html": page(content), **figures}


def _complete(study: Study, rows: Sequence[TableRow]) -> bool:
    """Whether every trial has ended, and there is something to compare: drawing takes seconds of CPU."""
    if sum(row.seeds > 0 for row in rows) < 2:
        return False
    return all(study.trial_folder(trial).state(trial.key) in ("finished", "failed") for trial in study.trials)
