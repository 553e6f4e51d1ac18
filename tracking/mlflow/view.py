"""The saved view of a study on MLflow's pages: rows in the table's order, the scores first, and
charts.

MLflow keeps a view as a tag of the experiment. The format is that of MLflow 3.17.2; a test opens it
in a browser.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Any

from tracking.card import Metric
from tracking.mlflow.ledger import IDENTITY
from tracking.mlflow.names import legal
from tracking.mlflow.pages import ROW, VAL
from tracking.mlflow.runs import DELTA, FINAL
from tracking.mlflow.store import quoted
from tracking.study import Study, seconds

TAG = "mlflow.sharedViewState."
# MLflow then opens on runs, not on traces
KIND = {"mlflow.experimentKind": "custom_model_development"}
COST_COLUMNS = {"params": 75, "flops": 130, "seconds": 65}  # metric, width in pixels
ROW_WIDTH = 135
SCORE_WIDTH = 75
SEED_WIDTH = 45
LOSS = "train/loss"
LONGEST_TAG = 20_000  # MLflow's limit for a tag of an experiment
ALL_RUNS = 1000  # the limit of a chart, 10 by default


def view_id(mark: str) -> str:
    """The id of the view of the study with this mark, always the same."""
    return f"allelse-{hashlib.sha256(mark.encode()).hexdigest()[:12]}"


def view_tag(study: Study, logged: Collection[str]) -> dict[str, str]:
    """The tag that holds the view. ``logged``: the metrics that runs have while training.

    If a study has too many metrics, only the first ones get charts: MLflow limits a tag's length.
    """
    tabled = study.task.tabled
    name = f"{TAG}{view_id(study.mark)}"
    for count in range(len(tabled), -1, -1):
        view = _view(study, logged, tabled[:count])
        if len(view) <= LONGEST_TAG:
            return {name: view}
    return {name: ""}


def first_asked_ms(study: Study) -> int:
    """When a command first asked for the study; 0 if that is not recorded."""
    if not study.asked:
        return 0
    return round(1000 * (seconds(study.asked[0]["ts"]) or 0.0))


def _view(study: Study, logged: Collection[str], charted: Sequence[Metric]) -> str:
    created_ms = first_asked_ms(study)
    state = json.dumps(_state(study, logged, charted), separators=(",", ":"), ensure_ascii=False)
    view = {
        "name": f"{study.name} as a table",
        "createdAt": created_ms,
        "updatedAt": created_ms,
        "state": state,
    }
    return json.dumps(view, ensure_ascii=False)


def _state(study: Study, logged: Collection[str], charted: Sequence[Metric]) -> dict[str, Any]:
    columns = _columns(study)
    return {
        "searchFilter": f"tags.`{IDENTITY}` = {quoted(study.mark)}",
        "orderByKey": f"tags.`{study.task.tags}.order`",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": list(columns),
        "columnOrder": list(columns),
        "columnWidths": columns,
        "runsHiddenMode": "SHOW_ALL",
        "runsHidden": [],
        "runsVisibilityMap": {},
        "viewMaximized": False,
        **_charts(charted, logged),
        "groupBy": None,
        "hideEmptyCharts": True,
    }


def _columns(study: Study) -> dict[str, int]:
    """The columns in their order, with their widths in pixels."""
    names = [legal(metric.name) for metric in study.task.tabled]
    widths = {"tags.`seed`": SEED_WIDTH}
    widths |= {f"tags.`{ROW}{name}`": ROW_WIDTH for name in names}
    widths |= {f"metrics.`{FINAL}{name}`": SCORE_WIDTH for name in names}
    widths |= {f"metrics.`{name}`": width for name, width in COST_COLUMNS.items()}
    return widths


def _charts(metrics: Sequence[Metric], logged: Collection[str]) -> dict[str, Any]:
    """Curves of the scores and of the loss, scores against parameters, and each score as bars."""
    names = [legal(metric.name) for metric in metrics]
    curves = [*(f"{VAL}{name}" for name in names), LOSS]
    curves = [name for name in curves if name in logged]
    scores: list[str] = []
    for name in names:
        scores += [f"{FINAL}{name}", f"{DELTA}{name}"]
    lines = [_line(index, name) for index, name in enumerate(curves)]
    clouds = [_scatter(index, name) for index, name in enumerate(names)]
    bars = [_bar(index, name) for index, name in enumerate(scores)]
    sections = (
        ("curves", "While training", lines),
        ("costs", "Score against parameters", clouds),
        ("scores", "Scores and differences from base", bars),
    )
    all_charts: list[dict[str, Any]] = []
    chart_sections = []
    for uuid, title, charts in sections:
        all_charts += charts
        if charts:
            chart_sections.append(_section(uuid, title, charts))
    return {
        "compareRunCharts": all_charts,
        "compareRunSections": chart_sections,
        "isAccordionReordered": True,  # otherwise MLflow sorts the sections by their names
    }


def _section(uuid: str, name: str, charts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": name,
        "columns": 2 if len(charts) % 3 else 3,
        "display": True,
        "isReordered": True,
        "deleted": False,
        "isGenerated": False,
    }


def _chart(chart_type: str, section: str, index: int, name: str) -> dict[str, Any]:
    return {
        "uuid": f"{section}-{index}",
        "type": chart_type,
        "metricSectionId": section,
        "displayName": name,
        "runsCountToCompare": ALL_RUNS,
        "deleted": False,
        "isGenerated": False,
    }


def _line(index: int, name: str) -> dict[str, Any]:
    return {
        **_chart("LINE", "curves", index, name),
        "metricKey": name,
        "selectedMetricKeys": [name],
        "lineSmoothness": 0,
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "range": {},
        "xAxisKey": "step",
        "selectedXAxisMetricKey": "",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "ignoreOutliers": False,
        "useGlobalXaxisKey": True,
        "useGlobalLineSmoothing": True,
    }


def _scatter(index: int, metric: str) -> dict[str, Any]:
    return {
        **_chart("SCATTER", "costs", index, f"{FINAL}{metric} against params"),
        "xaxis": {"key": "params", "type": "METRIC"},
        "yaxis": {"key": f"{FINAL}{metric}", "type": "METRIC"},
    }


def _bar(index: int, name: str) -> dict[str, Any]:
    return {**_chart("BAR", "scores", index, name), "metricKey": name}


def page_address(server: str, experiment: str, mark: str, mode: str = "") -> str:
    """The address of the page that compares the runs of the study with this mark.

    ``mode``: "" for the table, CHART, or ARTIFACT for texts side by side. A filter or an order in
    the address would switch the view off.
    """
    query = f"viewStateShareKey={view_id(mark)}&workflowType=machine_learning"
    if mode:
        query += f"&compareRunsMode={mode}"
    return f"{server.rstrip('/')}/#/experiments/{experiment}/runs?{query}"
