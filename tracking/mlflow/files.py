"""The artifacts of a trial's run (what it was, how it went, its texts) and of the study's: table, report, figures."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import yaml

from tracking.damage import unless_damaged
from tracking.files import read_whole
from tracking.journal import JournalLine
from tracking.mlflow.describe import points_in
from tracking.statistics.findings import Findings, with_verdicts
from tracking.statistics.rows import TableRow
from tracking.study import Study
from tracking.table.layout import written
from tracking.trial import TAKEN, TrialFolder
from tracking.uri import shown_tree, without_password

SAMPLES = "samples.json"  # at one path in all runs, so that MLflow shows them side by side
TABLES = json.dumps([{"path": SAMPLES, "type": "table"}])
"""The tag by which MLflow finds the tables of a run, `mlflow.loggedArtifacts`."""
MOST_LINES = 100  # per set


def run_files(folder: TrialFolder, lives: bool) -> dict[str, bytes]:
    """The artifacts by path. What still changes while the trial runs is left out until it ends."""
    config, provenance = unless_damaged(folder.config, None), _content(folder.provenance_path)
    found = {} if provenance is None else {folder.provenance_path.name: _without_secrets(provenance)}
    if config is not None:
        shown = yaml.safe_dump(shown_tree(config), sort_keys=False, allow_unicode=True)
        found[folder.config_path.name] = shown.encode()
    if lives:
        return found
    if journal := unless_damaged(folder.journal, []):
        found["curve.csv"] = curve(folder, journal).encode()
    if (table := samples(folder)) is not None:
        found[SAMPLES] = table.encode()
    if error := unless_damaged(folder.error, None):
        found["error.txt"] = error.encode()
    return found


def curve(folder: TrialFolder, journal: Sequence[JournalLine]) -> str:
    """The journal as CSV: a line per report, a column per metric, named as in MLflow."""
    lines = [points_in(folder.card, line) for line in journal]
    names = list(dict.fromkeys(name for line in lines for name in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, ["step", *names], lineterminator="\n")
    writer.writeheader()
    writer.writerows({"step": report.step, **line} for report, line in zip(journal, lines, strict=True))
    return text.getvalue()


def samples(folder: TrialFolder) -> str | None:
    """The first lines of the trial's texts of each set, as MLflow's table; None without texts.

    Columns: the sample, such as `dev 001`, and each folder of texts, such as `answers`. MLflow's comparison groups
    by the first column and shows the second.
    """
    kinds = sorted(path.name for path in folder.path.glob("*/") if path.name not in TAKEN and any(path.glob("*.txt")))
    sets = list(dict.fromkeys(path.stem for kind in kinds for path in sorted((folder.path / kind).glob("*.txt"))))
    rows = [row for name in sets for row in _rows(folder.path, kinds, name)]
    content = {"columns": ["sample", *kinds], "data": rows}
    return json.dumps(content, ensure_ascii=False) if rows else None


def _rows(folder: Path, kinds: Sequence[str], name: str) -> list[list[str]]:
    texts = [_lines(folder / kind / f"{name}.txt") for kind in kinds]
    count = min(MOST_LINES, max(map(len, texts)))
    return [[f"{name} {at + 1:03d}", *(text[at] if at < len(text) else "" for text in texts)] for at in range(count)]


def _lines(path: Path) -> list[str]:
    return (_content(path) or b"").decode("utf-8", errors="replace").splitlines()


def _without_secrets(content: bytes) -> bytes:
    return without_password(content.decode("utf-8", errors="replace")).encode()


def _content(path: Path) -> bytes | None:
    """None without the file, and for one that cannot be read: the rest of the page is of use without it."""
    return unless_damaged(partial(read_whole, path), None)


def study_files(study: Study, rows: Sequence[TableRow], findings: Findings) -> dict[str, bytes]:
    """The files of the study's run, by their paths: those of `allelse table`, and those of `allelse report` if it is
    complete."""
    all_of_it = with_verdicts(findings, study.task, rows)
    return {
        "table.md": written("md", study, rows, findings=findings).encode(),
        "table.csv": written("csv", study, rows, findings=all_of_it).encode(),
        **(_report(study) if _complete(study, rows) else {}),
    }


def _report(study: Study) -> Mapping[str, bytes]:
    from tracking.report.page import page, whole_content  # matplotlib, only where something is drawn

    content = whole_content(study)
    figures = {f"figures/{figure.name}.svg": figure.content("svg") for figure in content.figures.all}
    return {"report.html": page(content).encode(), **figures}


def _complete(study: Study, rows: Sequence[TableRow]) -> bool:
    """Whether every trial has ended, and there is something to compare: drawing takes seconds of CPU."""
    if sum(row.seeds > 0 for row in rows) < 2:
        return False
    return all(study.trial_folder(trial).state(trial.key) in ("finished", "failed") for trial in study.trials)
