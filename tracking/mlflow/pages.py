"""MLflow's pages on a study: names and colors of its runs, the saved view that shows them, and the server.

MLflow keeps a view as a tag of the experiment: rows in the table's order, the scores first, charts ready. The form is
that of MLflow 3.17.2; a test opens it in a browser. docs/mlflow.md explains the names to users.
"""

import colorsys
import hashlib
import json
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tracking.card import Card, Metric
from tracking.journal import JournalLine
from tracking.mlflow.ledger import IDENTITY
from tracking.mlflow.store import DELTA, quoted, without_new_folder
from tracking.statistics.rows import BASE
from tracking.study import Study, StudyTrial, seconds
from tracking.uri import artifact_folder

VAL, FINAL, BEST, LAST, PUBLISHED = "val/", "final/", "best/", "last/", "published/"
PUBLISHED_DELTA = "published/delta/"
OF_OTHERS = (BEST, LAST, DELTA, PUBLISHED)  # these are not of the finished model
ROW = "row."  # tags: mean ± sd of a run's row, and its difference from base

LISTED_WIDTH = 22  # characters of a run's name that MLflow's list shows
GOLDEN = 0.618034  # of the color circle, so that neighbors in the table differ most
SHADES = (0.42, 0.58, 0.72, 0.34, 0.5)


TAG = "mlflow.sharedViewState."
KIND = {"mlflow.experimentKind": "custom_model_development"}  # MLflow then opens on runs, not on traces
COST_COLUMNS = {"params": 75, "flops": 130, "seconds": 65}  # metric, width in pixels
ROW_WIDTH, SCORE_WIDTH, SEED_WIDTH = 135, 75, 45
LOSS = "train/loss"
LONGEST_TAG = 20_000  # MLflow's limit of a tag of an experiment
ALL_RUNS = 1000  # a chart's own limit, which is 10 otherwise


def points_in(card: Card, report: JournalLine) -> dict[str, float]:
    """The values of a report, named as in MLflow."""
    return {journal_name(card, name): value for name, value in report.metrics.items()}


def journal_name(card: Card, name: str) -> str:
    """`val/<metric>` for a metric of the card on its own set, such as `dev/<metric>`; other names as they are."""
    set_name, _, metric = name.partition("/")
    return f"{VAL}{metric}" if _is_own(card, set_name, metric) else name


def final_name(card: Card, set_name: str, metric: str) -> str:
    """`final/<metric>` on the metric's own set, which the table shows; `final/<set>/<metric>` on others."""
    return f"{FINAL}{metric}" if _is_own(card, set_name, metric) else f"{FINAL}{set_name}/{metric}"


def _is_own(card: Card, set_name: str, metric: str) -> bool:
    return any(each.name == metric and each.set == set_name for each in card.metrics)


def run_names(study: Study) -> dict[str, str]:
    """The name of each trial's run by its key: unique in the study, such as `base s1`, `C d_model 1024 s1`."""
    short = {trial.key: _short(trial) for trial in study.trials}
    taken = Counter(short.values())
    return {each.key: short[each.key] if taken[short[each.key]] == 1 else _whole(each) for each in study.trials}


def _short(trial: StudyTrial) -> str:
    """The first of these that fits: the change, its first value, the words of the row's name, the row's name."""
    words = trial.row.removeprefix(f"{trial.group.lower()}_").replace("_", " ")
    choices = () if trial.group == trial.row else (trial.change, trial.change.partition(",")[0], words)
    names = [f"{trial.group} {choice} s{trial.seed}" for choice in choices if choice]
    return next((name for name in names if len(name) <= LISTED_WIDTH), _whole(trial))


def _whole(trial: StudyTrial) -> str:
    return f"{trial.row} s{trial.seed}"


def color_of(study: Study, trial: StudyTrial) -> str:
    """`#rrggbb`: a hue per row, a shade per seed; base is gray, as the reference of all others."""
    rows = list(dict.fromkeys(each.row for each in study.trials))
    seeds = sorted({each.seed for each in study.trials if each.row == trial.row})
    place, shade = rows.index(trial.row), SHADES[seeds.index(trial.seed) % len(SHADES)]
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
    return {f"{TAG}{view_id(study.mark)}": next((view for view in views if len(view) <= LONGEST_TAG), "")}


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
    shown = {"runsHiddenMode": "SHOW_ALL", "runsHidden": [], "runsVisibilityMap": {}, "viewMaximized": False}
    table = {"selectedColumns": list(columns), "columnOrder": list(columns), "columnWidths": columns}
    return {**facets, **table, **shown, **_charts(charted, logged), "groupBy": None, "hideEmptyCharts": True}


def _columns(study: Study) -> dict[str, int]:
    """The columns in their order, with their widths in pixels."""
    return {
        "tags.`seed`": SEED_WIDTH,
        **{f"tags.`{ROW}{metric.name}`": ROW_WIDTH for metric in study.task.tabled},
        **{f"metrics.`{FINAL}{metric.name}`": SCORE_WIDTH for metric in study.task.tabled},
        **{f"metrics.`{name}`": width for name, width in COST_COLUMNS.items()},
    }


def _charts(metrics: Sequence[Metric], logged: Collection[str]) -> dict[str, Any]:
    """Curves of the scores and of the loss, scores against parameters, and each score as bars."""
    curves = [name for name in (*(f"{VAL}{metric.name}" for metric in metrics), LOSS) if name in logged]
    lines = [_line(place, name) for place, name in enumerate(curves)]
    clouds = [_scatter(place, metric.name) for place, metric in enumerate(metrics)]
    scores = [f"{kind}{metric.name}" for metric in metrics for kind in (FINAL, DELTA)]
    bars = [_bar(place, name) for place, name in enumerate(scores)]
    sections = [("curves", "While training", lines), ("costs", "Score against parameters", clouds)]
    sections += [("scores", "Scores and differences from base", bars)]
    return {
        "compareRunCharts": [chart for _, _, charts in sections for chart in charts],
        "compareRunSections": [_section(*each) for each in sections if each[2]],
        "isAccordionReordered": True,  # otherwise MLflow sorts the sections by their names
    }


def _section(uuid: str, name: str, charts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    about = {"uuid": uuid, "name": name, "columns": 2 if len(charts) % 3 else 3}
    return about | {"display": True, "isReordered": True, "deleted": False, "isGenerated": False}


def _chart(kind: str, section: str, place: int, name: str) -> dict[str, Any]:
    about = {"uuid": f"{section}-{place}", "type": kind, "metricSectionId": section, "displayName": name}
    return about | {"runsCountToCompare": ALL_RUNS, "deleted": False, "isGenerated": False}


def _line(place: int, name: str) -> dict[str, Any]:
    scale = {"lineSmoothness": 0, "xAxisScaleType": "linear", "scaleType": "linear", "range": {}, "xAxisKey": "step"}
    axes = {"selectedXAxisMetricKey": "", "yAxisKey": "metric", "yAxisExpressions": [], "ignoreOutliers": False}
    shared = {"useGlobalXaxisKey": True, "useGlobalLineSmoothing": True}
    metric = {"metricKey": name, "selectedMetricKeys": [name]}
    return _chart("LINE", "curves", place, name) | metric | scale | axes | shared


def _scatter(place: int, metric: str) -> dict[str, Any]:
    axes = {"xaxis": {"key": "params", "type": "METRIC"}, "yaxis": {"key": f"{FINAL}{metric}", "type": "METRIC"}}
    return _chart("SCATTER", "costs", place, f"{FINAL}{metric} against params") | axes


def _bar(place: int, name: str) -> dict[str, Any]:
    return _chart("BAR", "scores", place, name) | {"metricKey": name}


def ui_command(runs: Path, host: str = "127.0.0.1", port: int = 5000) -> list[str]:
    """The command that serves a store at http://host:port; run it in `ui_environment()`, which names the store."""
    artifacts = artifact_folder(runs).as_uri()
    return [
        *(sys.executable, "-m", "mlflow", "server"),
        *("--default-artifact-root", artifacts),
        *("--artifacts-destination", artifacts),  # the default is ./mlartifacts in the current directory
        *("--host", host, "--port", str(port)),
        *("--workers", "1"),
        *("--uvicorn-opts", "--log-level=warning"),  # otherwise it prints a line per request
    ]


def page_address(server: str, experiment: str, mark: str, mode: str = "") -> str:
    """The address of the comparison of the study with this mark.

    ``mode``: "" for the table, CHART, or ARTIFACT for texts side by side. A filter or an order in the address would
    switch the view off.
    """
    how = f"&compareRunsMode={mode}" if mode else ""
    query = f"viewStateShareKey={view_id(mark)}&workflowType=machine_learning{how}"
    return f"{server.rstrip('/')}/#/experiments/{experiment}/runs?{query}"


def answers(server: str, wait_s: float) -> bool:
    """Whether the server at this address answers within so many seconds."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        with suppress(OSError), urlopen(f"{server}/health", timeout=1):
            return True
        time.sleep(0.2)
    return False


def ui_environment(uri: str) -> dict[str, str]:
    """This process's environment with the store's address, since an argument list would show its password to all users.
    It turns off MLflow's job runners (2 GB of memory), telemetry and warnings. ``uri`` names a database.
    """
    return {
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": without_new_folder(uri),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PYTHONSAFEPATH": "1",  # modules of the current folder must not hide MLflow's
        "PYTHONWARNINGS": "ignore",  # of MLflow's own libraries, for their authors
    }


def free_port(preferred: int) -> int:
    """`preferred` if it is free on 127.0.0.1, otherwise a free port that the system chooses."""
    for port in (preferred, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")
