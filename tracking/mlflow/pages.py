"""A study's runs on MLflow's pages: their names, colors, metrics and files.

docs/mlflow.md explains the names to users.
"""

import colorsys
import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path

import yaml

from tracking.card import Card
from tracking.files import read_whole, unless_damaged
from tracking.json_lines.journal import JournalLine
from tracking.mlflow.names import legal, legal_curve
from tracking.mlflow.runs import BEST, DELTA, FINAL, LAST, PUBLISHED
from tracking.statistics.table_row import BASE, TableRow
from tracking.study import Study, StudyTrial
from tracking.table.columns import columns_of
from tracking.table.layout import table_text
from tracking.table.study_table import StudyTable
from tracking.trial import OTHER_FOLDERS, TrialFolder
from tracking.uri import shown_tree, without_password

VAL = "val/"
PUBLISHED_DELTA = "published/delta/"
NOT_OF_MODEL = (BEST, LAST, DELTA, PUBLISHED)  # numbers that don't describe the finished model
ROW = "row."  # tags: mean ± sd of a run's row, and its difference from base

LISTED_WIDTH = 22  # characters of a run's name that MLflow's list shows
GOLDEN = 0.618034  # part of the color circle between rows, so that neighbors differ most
SHADES = (0.42, 0.58, 0.72, 0.34, 0.5)

SAMPLES = "samples.json"  # the same path in all runs, so that MLflow shows them side by side
TABLES = json.dumps([{"path": SAMPLES, "type": "table"}])
"""The tag by which MLflow finds the tables of a run, `mlflow.loggedArtifacts`."""
LINES_PER_SET = 100
FILES = {"table.md": "md", "table.csv": "csv"}
"""Files of the study's run, with their formats for `allelse table`."""


def points_in(card: Card, report: JournalLine) -> dict[str, float]:
    """The values of a report, named as in MLflow."""
    return {journal_name(card, name): value for name, value in report.metrics.items()}


def journal_name(card: Card, name: str) -> str:
    """`val/<metric>` for a metric of the card on its own set, such as `dev/<metric>`; a curve's
    name for others."""
    metric = own_metric(card, name)
    return legal_curve(name, own_curves(card)) if metric is None else f"{VAL}{legal(metric)}"


def own_curves(card: Card) -> list[str]:
    """The curves in MLflow of the card's metrics on their own sets, which no other one may join."""
    return [f"{VAL}{legal(metric.name)}" for metric in card.metrics]


def own_metric(card: Card, name: str) -> str | None:
    """The metric of a reported name such as `dev/<metric>` on its own set; otherwise None."""
    set_name, _, metric = name.partition("/")
    return metric if _is_own(card, set_name, metric) else None


def final_name(card: Card, set_name: str, metric: str) -> str:
    """`final/<metric>` on the metric's own set, `final/<set>/<metric>` on others."""
    return FINAL + legal(metric if _is_own(card, set_name, metric) else f"{set_name}/{metric}")


def _is_own(card: Card, set_name: str, metric: str) -> bool:
    return (metric, set_name) in [(declared.name, declared.set) for declared in card.metrics]


def run_names(study: Study) -> dict[str, str]:
    """The unique name of each trial's run by its key, such as `base s1`, `C d_model 1024 s1`."""
    short_names = {trial.key: _short_name(trial) for trial in study.trials}
    counts = Counter(short_names.values())
    names = {}
    for trial in study.trials:
        short = short_names[trial.key]
        names[trial.key] = short if counts[short] == 1 else _full_name(trial)
    return names


def _short_name(trial: StudyTrial) -> str:
    """The first that fits: the change, its first value, the row's words, the row's name."""
    if trial.group == trial.row:
        return _full_name(trial)
    words = trial.row.removeprefix(f"{trial.group.lower()}_").replace("_", " ")
    for choice in (trial.change, trial.change.partition(",")[0], words):
        name = f"{trial.group} {choice} s{trial.seed}"
        if choice and len(name) <= LISTED_WIDTH:
            return name
    return _full_name(trial)


def _full_name(trial: StudyTrial) -> str:
    return f"{trial.row} s{trial.seed}"


def color_of(study: Study, trial: StudyTrial) -> str:
    """`#rrggbb`: a hue per row, a shade per seed. Base, the reference, is gray."""
    rows = list(dict.fromkeys(planned.row for planned in study.trials))
    seeds = sorted({planned.seed for planned in study.trials if planned.row == trial.row})
    hue = (rows.index(trial.row) * GOLDEN) % 1
    shade = SHADES[seeds.index(trial.seed) % len(SHADES)]
    saturation = 0.0 if trial.row == BASE else 0.6
    channels = colorsys.hls_to_rgb(hue, shade, saturation)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


def row_words(table: StudyTable) -> dict[str, dict[str, str]]:
    """By row and metric, such as "91.7 ± 0.4, +1.2▲": over the row's seeds, and its difference from
    its reference.

    "" before the row's first score.
    """
    columns = columns_of(table)
    texts = dict[str, dict[str, str]]()
    for row in table.rows:
        texts[row.row] = {}
        for name in [metric.name for metric in table.card.tabled]:
            text = ""
            if row.seeds:
                text = columns[name].text(row) + _divergence(row)
                if row.row != table.findings.reference:
                    text += f", {columns[f'delta_{name}'].text(row)}"
            texts[row.row][name] = text
    return texts


def _divergence(row: TableRow) -> str:
    """Such as " (1 of 3 diverged)"; "" if none did."""
    if not row.diverged:
        return ""
    return f" ({len(row.diverged)} of {row.seeds + len(row.diverged)} diverged)"


def run_files(folder: TrialFolder, is_running: bool) -> dict[str, str]:
    """The artifacts by path. Leaves out files that still change while the trial runs, and damaged
    ones: the page is useful without them."""
    files = {folder.provenance_path.name: without_password(_text(folder.provenance_path))}
    config = unless_damaged(folder.config, None)
    if config is not None:
        text = yaml.safe_dump(shown_tree(config), sort_keys=False, allow_unicode=True)
        files[folder.config_path.name] = text
    if not is_running:
        files[SAMPLES] = samples(folder)
        files |= folder.pictures()
        files["error.txt"] = unless_damaged(folder.error, None) or ""
    return {path: text for path, text in files.items() if text}


def samples(folder: TrialFolder) -> str:
    """The first lines of the trial's texts of each set, as MLflow's table; "" without texts.

    Columns: the sample, such as `dev 001`, and each folder of texts, such as `answers`. MLflow's
    comparison groups by the first column and shows the second.
    """
    text_folders = []
    for path in sorted(folder.path.glob("*/")):
        if path.name not in OTHER_FOLDERS and any(path.glob("*.txt")):
            text_folders.append(path)
    set_names: dict[str, None] = {}
    for path in text_folders:
        set_names |= dict.fromkeys(text.stem for text in sorted(path.glob("*.txt")))
    rows: list[list[str]] = []
    for set_name in set_names:
        rows += _rows(text_folders, set_name)
    if not rows:
        return ""
    columns = ["sample", *(path.name for path in text_folders)]
    return json.dumps({"columns": columns, "data": rows}, ensure_ascii=False)


def _rows(text_folders: Sequence[Path], set_name: str) -> list[list[str]]:
    texts = [_lines(path / f"{set_name}.txt") for path in text_folders]
    rows = []
    for number, lines in enumerate(islice(zip_longest(*texts, fillvalue=""), LINES_PER_SET), 1):
        rows.append([f"{set_name} {number:03d}", *lines])
    return rows


def _lines(path: Path) -> list[str]:
    """Those of a file, where only a line feed ends a line; none if it is missing or unreadable."""
    return _text(path).split("\n")[:-1]


def _text(path: Path) -> str:
    """The content of a file; "" if it is missing or unreadable."""
    content = unless_damaged(partial(read_whole, path), None) or b""
    return content.decode("utf-8", errors="replace")


def study_files(table: StudyTable) -> dict[str, str]:
    """The files of the study's run by path: those of `allelse table`, and those of `report` once
    all trials have ended."""
    files = {name: table_text(file_format, table) for name, file_format in FILES.items()}
    if _is_complete(table):
        files |= _report(table)
    return files


def _report(table: StudyTable) -> dict[str, str]:
    from tracking.report.page import Content, page  # Matplotlib, only if something is drawn

    content = Content(table)
    files = {"report.html": page(content)}
    for figure in content.figures:
        files[f"figures/{figure.name}.svg"] = figure.content("svg").decode()
    return files


def _is_complete(table: StudyTable) -> bool:
    """Whether every trial has ended and a comparison makes sense: drawing takes seconds."""
    study = table.study
    if sum(row.seeds > 0 for row in table.rows) < 2:
        return False
    return all(standing.state in ("finished", "failed") for standing in study.standings())
