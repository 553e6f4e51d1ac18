"""MLflow's pages on a study: its runs' names, colors and files, and the saved view that shows them.

MLflow keeps a view as a tag of the experiment: rows in the table's order, the scores first, charts
ready. The form is that of MLflow 3.17.2; a test opens it in a browser. docs/mlflow.md explains the
names to users.
"""

import colorsys
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import yaml

from tracking.card import Card, Metric
from tracking.files import read_whole, unless_damaged
from tracking.journal import JournalLine
from tracking.mlflow.ledger import IDENTITY
from tracking.mlflow.names import legal, legal_curve
from tracking.mlflow.runs import BEST, DELTA, FINAL, LAST, PUBLISHED
from tracking.mlflow.store import quoted
from tracking.statistics.table_rows import BASE
from tracking.study import Study, StudyTrial, seconds
from tracking.table.columns import StudyTable, columns_of
from tracking.table.layout import written
from tracking.trial import OTHER_FOLDERS, TrialFolder
from tracking.uri import shown_tree, without_password

VAL = "val/"
PUBLISHED_DELTA = "published/delta/"
OF_OTHERS = (BEST, LAST, DELTA, PUBLISHED)  # these are not of the finished model
ROW = "row."  # tags: mean ± sd of a run's row, and its difference from base

LISTED_WIDTH = 22  # characters of a run's name that MLflow's list shows
GOLDEN = 0.618034  # of the color circle, so that neighbors in the table differ most
SHADES = (0.42, 0.58, 0.72, 0.34, 0.5)

TAG = "mlflow.sharedViewState."
KIND = {
    "mlflow.experimentKind": "custom_model_development"
}  # MLflow then opens on runs, not on traces
COST_COLUMNS = {"params": 75, "flops": 130, "seconds": 65}  # metric, width in pixels
ROW_WIDTH = 135
SCORE_WIDTH = 75
SEED_WIDTH = 45
LOSS = "train/loss"
LONGEST_TAG = 20_000  # MLflow's limit of a tag of an experiment
ALL_RUNS = 1000  # a chart's own limit, which is 10 otherwise
SAMPLES = "samples.json"  # at one path in all runs, so that MLflow shows them side by side
TABLES = json.dumps([{"path": SAMPLES, "type": "table"}])
"""The tag by which MLflow finds the tables of a run, `mlflow.loggedArtifacts`."""
LINES_PER_SET = 100
FILES = {
    "table.md": "md",
    "table.csv": "csv",
}  # of the study's run, with the formats of `allelse table`


def points_in(card: Card, report: JournalLine) -> dict[str, float]:
    """The values of a report, named as in MLflow."""
    return {journal_name(card, name): value for name, value in report.metrics.items()}


def journal_name(card: Card, name: str) -> str:
    """`val/<metric>` for a metric of the card on its own set, such as `dev/<metric>`; others as
    curves."""
    metric = own_metric(card, name)
    return legal_curve(name) if metric is None else f"{VAL}{legal(metric)}"


def own_metric(card: Card, name: str) -> str | None:
    """The metric of the card that a reported name such as `dev/<metric>` means on its own set; None
    for others."""
    set_name, _, metric = name.partition("/")
    return metric if _is_own(card, set_name, metric) else None


def final_name(card: Card, set_name: str, metric: str) -> str:
    """`final/<metric>` on the metric's own set, which the table shows; `final/<set>/<metric>` on
    others."""
    return FINAL + legal(metric if _is_own(card, set_name, metric) else f"{set_name}/{metric}")


def _is_own(card: Card, set_name: str, metric: str) -> bool:
    return any(each.name == metric and each.set == set_name for each in card.metrics)


def run_names(study: Study) -> dict[str, str]:
    """The name of each trial's run by its key: unique in the study, such as `base s1`, `C d_model
    1024 s1`."""
    short = {trial.key: _short(trial) for trial in study.trials}
    taken = Counter(short.values())
    return {
        each.key: short[each.key] if taken[short[each.key]] == 1 else _whole(each)
        for each in study.trials
    }


def _short(trial: StudyTrial) -> str:
    """The first of these that fits: the change, its first value, the words of the row's name, the
    row's name."""
    words = trial.row.removeprefix(f"{trial.group.lower()}_").replace("_", " ")
    choices = (
        () if trial.group == trial.row else (trial.change, trial.change.partition(",")[0], words)
    )
    names = [f"{trial.group} {choice} s{trial.seed}" for choice in choices if choice]
    return next((name for name in names if len(name) <= LISTED_WIDTH), _whole(trial))


def _whole(trial: StudyTrial) -> str:
    return f"{trial.row} s{trial.seed}"


def color_of(study: Study, trial: StudyTrial) -> str:
    """`#rrggbb`: a hue per row, a shade per seed; base is gray, as the reference of all others."""
    rows = list(dict.fromkeys(each.row for each in study.trials))
    seeds = sorted({each.seed for each in study.trials if each.row == trial.row})
    place = rows.index(trial.row)
    shade = SHADES[seeds.index(trial.seed) % len(SHADES)]
    channels = colorsys.hls_to_rgb((place * GOLDEN) % 1, shade, 0.0 if trial.row == BASE else 0.6)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)


def view_id(mark: str) -> str:
    """The id of the view of the study with this mark, the same whenever it is written."""
    return f"allelse-{hashlib.sha256(mark.encode()).hexdigest()[:12]}"


def view_tag(study: Study, logged: Collection[str]) -> dict[str, str]:
    """The tag that holds the view. ``logged``: the metrics that runs have while training.

    A study of many metrics has charts of the first ones only: MLflow limits the length of a tag.
    """
    tabled = study.task.tabled
    views = (_view(study, logged, tabled[:most]) for most in range(len(tabled), -1, -1))
    return {
        f"{TAG}{view_id(study.mark)}": next(
            (view for view in views if len(view) <= LONGEST_TAG), ""
        )
    }


def first_asked_ms(study: Study) -> int:
    """When the study was first asked for; 0 if that is not recorded."""
    return round(1000 * (seconds(study.asked[0]["ts"]) or 0.0)) if study.asked else 0


def _view(study: Study, logged: Collection[str], charted: Sequence[Metric]) -> str:
    made = first_asked_ms(study)
    envelope = {"name": f"{study.name} as a table", "createdAt": made, "updatedAt": made}
    text = json.dumps(_state(study, logged, charted), separators=(",", ":"), ensure_ascii=False)
    return json.dumps(envelope | {"state": text}, ensure_ascii=False)


def _state(study: Study, logged: Collection[str], charted: Sequence[Metric]) -> dict[str, Any]:
    columns = _columns(study)
    facets = {
        "searchFilter": f"tags.`{IDENTITY}` = {quoted(study.mark)}",
        "orderByKey": f"tags.`{study.task.tags}.order`",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
    }
    shown = {
        "runsHiddenMode": "SHOW_ALL",
        "runsHidden": [],
        "runsVisibilityMap": {},
        "viewMaximized": False,
    }
    table = {
        "selectedColumns": list(columns),
        "columnOrder": list(columns),
        "columnWidths": columns,
    }
    return {
        **facets,
        **table,
        **shown,
        **_charts(charted, logged),
        "groupBy": None,
        "hideEmptyCharts": True,
    }


def _columns(study: Study) -> dict[str, int]:
    """The columns in their order, with their widths in pixels."""
    return {
        "tags.`seed`": SEED_WIDTH,
        **{f"tags.`{ROW}{legal(metric.name)}`": ROW_WIDTH for metric in study.task.tabled},
        **{f"metrics.`{FINAL}{legal(metric.name)}`": SCORE_WIDTH for metric in study.task.tabled},
        **{f"metrics.`{name}`": width for name, width in COST_COLUMNS.items()},
    }


def _charts(metrics: Sequence[Metric], logged: Collection[str]) -> dict[str, Any]:
    """Curves of the scores and of the loss, scores against parameters, and each score as bars."""
    names = [legal(metric.name) for metric in metrics]
    curves = [name for name in (*(f"{VAL}{name}" for name in names), LOSS) if name in logged]
    lines = [_line(place, name) for place, name in enumerate(curves)]
    clouds = [_scatter(place, name) for place, name in enumerate(names)]
    scores = [f"{kind}{name}" for name in names for kind in (FINAL, DELTA)]
    bars = [_bar(place, name) for place, name in enumerate(scores)]
    sections = [("curves", "While training", lines), ("costs", "Score against parameters", clouds)]
    sections += [("scores", "Scores and differences from base", bars)]
    return {
        "compareRunCharts": [chart for _, _, charts in sections for chart in charts],
        "compareRunSections": [_section(*section) for section in sections if section[2]],
        "isAccordionReordered": True,  # otherwise MLflow sorts the sections by their names
    }


def _section(uuid: str, name: str, charts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    about = {"uuid": uuid, "name": name, "columns": 2 if len(charts) % 3 else 3}
    return about | {"display": True, "isReordered": True, "deleted": False, "isGenerated": False}


def _chart(kind: str, section: str, place: int, name: str) -> dict[str, Any]:
    about = {
        "uuid": f"{section}-{place}",
        "type": kind,
        "metricSectionId": section,
        "displayName": name,
    }
    return about | {"runsCountToCompare": ALL_RUNS, "deleted": False, "isGenerated": False}


def _line(place: int, name: str) -> dict[str, Any]:
    scale = {
        "lineSmoothness": 0,
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "range": {},
        "xAxisKey": "step",
    }
    axes = {
        "selectedXAxisMetricKey": "",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "ignoreOutliers": False,
    }
    shared = {"useGlobalXaxisKey": True, "useGlobalLineSmoothing": True}
    metric = {"metricKey": name, "selectedMetricKeys": [name]}
    return _chart("LINE", "curves", place, name) | metric | scale | axes | shared


def _scatter(place: int, metric: str) -> dict[str, Any]:
    axes = {
        "xaxis": {"key": "params", "type": "METRIC"},
        "yaxis": {"key": f"{FINAL}{metric}", "type": "METRIC"},
    }
    return _chart("SCATTER", "costs", place, f"{FINAL}{metric} against params") | axes


def _bar(place: int, name: str) -> dict[str, Any]:
    return _chart("BAR", "scores", place, name) | {"metricKey": name}


def page_address(server: str, experiment: str, mark: str, mode: str = "") -> str:
    """The address of the comparison of the study with this mark.

    ``mode``: "" for the table, CHART, or ARTIFACT for texts side by side. A filter or an order in
    the address would switch the view off.
    """
    how = f"&compareRunsMode={mode}" if mode else ""
    query = f"viewStateShareKey={view_id(mark)}&workflowType=machine_learning{how}"
    return f"{server.rstrip('/')}/#/experiments/{experiment}/runs?{query}"


def row_words(table: StudyTable) -> dict[str, dict[str, str]]:
    """By row and metric, such as "91.7 ± 0.4, +1.2▲": over the row's seeds, and its difference from
    base.

    "" before the row's first score.
    """
    known = columns_of(table)
    found = dict[str, dict[str, str]]()
    for row in table.rows:
        lost = (
            f" ({len(row.diverged)} of {row.seeds + len(row.diverged)} diverged)"
            if row.diverged
            else ""
        )
        words = {
            metric.name: f"{known[metric.name].text(row)}{lost}"
            for metric in table.card.tabled
            if row.seeds
        }
        if row.row != table.findings.reference:
            words = {
                name: f"{score}, {known[f'delta_{name}'].text(row)}"
                for name, score in words.items()
            }
        found[row.row] = {metric.name: words.get(metric.name, "") for metric in table.card.tabled}
    return found


def run_files(folder: TrialFolder, lives: bool) -> dict[str, str]:
    """The artifacts by path. What still changes while the trial runs is left out until it ends; so
    is what is damaged, since the rest of the page is of use without it."""
    config = unless_damaged(folder.config, None)
    found = {folder.provenance_path.name: without_password(_text(folder.provenance_path))}
    if config is not None:
        found[folder.config_path.name] = yaml.safe_dump(
            shown_tree(config), sort_keys=False, allow_unicode=True
        )
    if not lives:
        found |= {SAMPLES: samples(folder), "error.txt": unless_damaged(folder.error, None) or ""}
    return {path: text for path, text in found.items() if text}


def samples(folder: TrialFolder) -> str:
    """The first lines of the trial's texts of each set, as MLflow's table; "" without texts.

    Columns: the sample, such as `dev 001`, and each folder of texts, such as `answers`. MLflow's
    comparison groups by the first column and shows the second.
    """
    kinds = sorted(
        path.name
        for path in folder.path.glob("*/")
        if path.name not in OTHER_FOLDERS and any(path.glob("*.txt"))
    )
    sets = list(
        dict.fromkeys(
            path.stem for kind in kinds for path in sorted((folder.path / kind).glob("*.txt"))
        )
    )
    rows = [row for name in sets for row in _rows(folder.path, kinds, name)]
    return (
        json.dumps({"columns": ["sample", *kinds], "data": rows}, ensure_ascii=False)
        if rows
        else ""
    )


def _rows(folder: Path, kinds: Sequence[str], name: str) -> list[list[str]]:
    texts = [_text(folder / kind / f"{name}.txt").splitlines() for kind in kinds]
    count = min(LINES_PER_SET, max(map(len, texts)))
    return [
        [f"{name} {at + 1:03d}", *(text[at] if at < len(text) else "" for text in texts)]
        for at in range(count)
    ]


def _text(path: Path) -> str:
    """Empty without the file, and for one that cannot be read."""
    return (unless_damaged(lambda: read_whole(path), None) or b"").decode("utf-8", errors="replace")


def study_files(table: StudyTable) -> dict[str, str]:
    """The files of the study's run, by their paths: those of `allelse table`, once all ended those
    of `report` too."""
    tables = {name: written(kind, table) for name, kind in FILES.items()}
    return tables | (_report(table) if _complete(table) else {})


def _report(table: StudyTable) -> dict[str, str]:
    from tracking.report.page import Content, page  # Matplotlib, only where something is drawn

    content = Content(table)
    figures = {
        f"figures/{figure.name}.svg": figure.content("svg").decode() for figure in content.figures
    }
    return {"report.html": page(content), **figures}


def _complete(table: StudyTable) -> bool:
    """Whether every trial has ended, and there is something to compare: drawing takes seconds of
    CPU."""
    study = table.study
    if sum(row.seeds > 0 for row in table.rows) < 2:
        return False
    return all(standing.state in ("finished", "failed") for standing in study.standings())
