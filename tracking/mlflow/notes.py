"""What MLflow's pages say: the descriptions of a run, a row and a study, and the files of their runs."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from tracking.files import read_whole, unless_damaged
from tracking.statistics.rows import BASE, TableRow
from tracking.table.columns import StudyTable, columns_of
from tracking.table.layout import brief_table, written
from tracking.table.text import markdown
from tracking.trial import OTHER_FOLDERS, TrialFolder
from tracking.uri import shown_tree, without_password

NOTE = "mlflow.note.content"
LONGEST_NOTE = 20_000  # characters of a tag of an experiment
SAMPLES = "samples.json"  # at one path in all runs, so that MLflow shows them side by side
TABLES = json.dumps([{"path": SAMPLES, "type": "table"}])
"""The tag by which MLflow finds the tables of a run, `mlflow.loggedArtifacts`."""
LINES_PER_SET = 100  # per set
FILES = {"table.md": "md", "table.csv": "csv"}  # of the study's run, with the formats of `allelse table`


def row_words(table: StudyTable) -> dict[str, dict[str, str]]:
    """By row and metric, such as "91.7 ± 0.4, +1.2▲": over the row's seeds, and its difference from base."""
    known, found = columns_of(table), dict[str, dict[str, str]]()
    for row in table.rows:
        lost = f" ({len(row.diverged)} of {row.seeds + len(row.diverged)} diverged)" if row.diverged else ""
        words = {metric.name: f"{known[metric.name].text(row)}{lost}" for metric in table.card.tabled if row.seeds}
        if row.row != table.findings.reference:
            words = {name: f"{score}, {known[f'delta_{name}'].text(row)}" for name, score in words.items()}
        found[row.row] = words
    return found


def study_note(table: StudyTable) -> str:
    """Markdown: the table in short, what its columns and marks mean, and the commands that made the study."""
    known = columns_of(table)
    scores = [known[f"{kind}{metric.name}"] for metric in table.card.tabled for kind in ("", "delta_")]
    seeds = replace(known["seeds"], text=_seeds)
    made = brief_table(table, [known["row"], known["change"], *scores, known["params"], seeds])
    again = "\n".join(["To reproduce:", "", "```", *dict.fromkeys(map(_command, table.study.asked)), "```"])
    text = f"{_first_line(table)}\n\n{markdown(made)}\n{again}"
    return text if len(text) <= LONGEST_NOTE else f"{text[: LONGEST_NOTE - 1]}…"


def _seeds(row: TableRow) -> str:
    """Such as "3 of 3, 1 diverged"."""
    finished = f"{row.seeds + len(row.diverged)} of {row.asked}"
    return f"{finished}, {len(row.diverged)} diverged" if row.diverged else finished


def _first_line(table: StudyTable) -> str:
    """What MLflow shows before the note is opened."""
    rows, known = table.rows, columns_of(table)
    base = next((row for row in rows if row.row == BASE and row.seeds), None)
    scores = ", ".join(f"{of.label} {known[of.name].text(base)}" for of in table.card.tabled if base)
    diverged, asked = sum(len(row.diverged) for row in rows), sum(row.asked for row in rows)
    finished = f"{sum(row.seeds for row in rows) + diverged} of {asked} trials finished"
    parts = [f"{len(rows)} rows", finished, f"{diverged} diverged" * (diverged > 0), f"base: {scores}" * bool(scores)]
    return f"**{table.study.name}**: {'; '.join(filter(None, parts))}"


def _command(asked: dict[str, str]) -> str:
    """As typed, with the program's name for its path."""
    program, space, words = asked["command"].partition(" ")
    return f"{Path(program).name}{space}{words}"


def run_files(folder: TrialFolder, lives: bool) -> dict[str, str]:
    """The artifacts by path. What still changes while the trial runs is left out until it ends; so is what is damaged,
    since the rest of the page is of use without it."""
    config = unless_damaged(folder.config, None)
    found = {folder.provenance_path.name: without_password(_text(folder.provenance_path))}
    if config is not None:
        found[folder.config_path.name] = yaml.safe_dump(shown_tree(config), sort_keys=False, allow_unicode=True)
    if not lives:
        found |= {SAMPLES: samples(folder), "error.txt": unless_damaged(folder.error, None) or ""}
    return {path: text for path, text in found.items() if text}


def samples(folder: TrialFolder) -> str:
    """The first lines of the trial's texts of each set, as MLflow's table; "" without texts.

    Columns: the sample, such as `dev 001`, and each folder of texts, such as `answers`. MLflow's comparison groups
    by the first column and shows the second.
    """
    kinds = sorted(
        path.name for path in folder.path.glob("*/") if path.name not in OTHER_FOLDERS and any(path.glob("*.txt"))
    )
    sets = list(dict.fromkeys(path.stem for kind in kinds for path in sorted((folder.path / kind).glob("*.txt"))))
    rows = [row for name in sets for row in _rows(folder.path, kinds, name)]
    return json.dumps({"columns": ["sample", *kinds], "data": rows}, ensure_ascii=False) if rows else ""


def _rows(folder: Path, kinds: Sequence[str], name: str) -> list[list[str]]:
    texts = [_text(folder / kind / f"{name}.txt").splitlines() for kind in kinds]
    count = min(LINES_PER_SET, max(map(len, texts)))
    return [[f"{name} {at + 1:03d}", *(text[at] if at < len(text) else "" for text in texts)] for at in range(count)]


def _text(path: Path) -> str:
    """Empty without the file, and for one that cannot be read."""
    return (unless_damaged(lambda: read_whole(path), None) or b"").decode("utf-8", errors="replace")


def study_files(table: StudyTable) -> dict[str, str]:
    """The files of the study's run, by their paths: those of `allelse table`, once all ended those of `report` too."""
    tables = {name: written(kind, table) for name, kind in FILES.items()}
    return tables | (_report(table) if _complete(table) else {})


def _report(table: StudyTable) -> dict[str, str]:
    from tracking.report.page import Content, page  # Matplotlib, only where something is drawn

    content = Content(table)
    figures = {f"figures/{figure.name}.svg": figure.content("svg").decode() for figure in content.figures.all}
    return {"report.html": page(content), **figures}


def _complete(table: StudyTable) -> bool:
    """Whether every trial has ended, and there is something to compare: drawing takes seconds of CPU."""
    study = table.study
    if sum(row.seeds > 0 for row in table.rows) < 2:
        return False
    return all(study.trial_folder(trial).state(trial.key) in ("finished", "failed") for trial in study.trials)
