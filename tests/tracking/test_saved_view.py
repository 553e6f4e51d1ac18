"""The saved view of a study, as a tag of its experiment. tests/tracking/test_mlflow_in_browser.py opens one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from other_tasks import digits, tagging

from tracking.metrics import Metric
from tracking.saved_view import LONGEST, TAG, view_id, view_query, view_tag
from tracking.study import Study

CURVES = ("val/ppl", "val/nll", "train/loss", "train/tokens_per_s")


def state(study: Study, *logged: str) -> dict[str, Any]:
    envelope = json.loads(view_tag(study, logged)[f"{TAG}{view_id(study.name)}"])
    assert isinstance(envelope["createdAt"], int), "MLflow ignores a view without it"
    return dict(json.loads(envelope["state"]))


def test_scores_and_differences_and_costs_are_the_columns(study: Study) -> None:
    found = state(study)
    metrics = [f"final/{name}" if kind else f"delta/{name}" for name in ("ppl", "bleu") for kind in (1, 0)]
    columns = ["tags.`seed`", *(f"metrics.`{name}`" for name in (*metrics, "params", "flops", "seconds"))]
    assert found["selectedColumns"] == found["columnOrder"] == list(found["columnWidths"]) == columns
    assert found["orderByKey"] == "tags.`table3.order`"
    assert found["runsHiddenMode"] == "SHOW_ALL"


def test_charts_show_what_runs_have(study: Study) -> None:
    def charts(*logged: str) -> list[str]:
        return [chart["displayName"] for chart in state(study, *logged)["compareRunCharts"]]

    always = [
        "final/ppl against params",
        "final/bleu against params",
        "final/ppl",
        "delta/ppl",
        "final/bleu",
        "delta/bleu",
    ]
    assert charts(*CURVES) == ["val/ppl", "train/loss", *always]
    assert charts() == always
    sections = [section["name"] for section in state(study)["compareRunSections"]]
    assert sections == ["Score against parameters", "Scores and differences from base"]
    assert all(chart["runsCountToCompare"] >= 1000 for chart in state(study, *CURVES)["compareRunCharts"])


def test_another_task_has_its_own_metrics(tmp_path: Path) -> None:
    columns = state(digits(tmp_path / "numbers"))["selectedColumns"]
    assert columns[1:3] == ["metrics.`final/accuracy`", "metrics.`delta/accuracy`"]
    assert state(digits(tmp_path / "more"))["orderByKey"] == "tags.`study.order`"
    three = state(tagging(tmp_path / "tags"))["selectedColumns"]
    assert [name for name in three if "final" in name] == [
        f"metrics.`final/{name}`" for name in ("f1", "error", "accuracy")
    ]


def test_a_view_is_the_same_whenever_it_is_written(study: Study) -> None:
    assert view_tag(study, CURVES) == view_tag(study, CURVES)
    other = replace(study, folder=study.folder.with_name("it's another"))
    assert view_id(other.name) != view_id(study.name)
    assert state(other)["searchFilter"] == """tags.`sweep.id` = "it's another\""""


def test_the_link_has_no_filter_of_its_own() -> None:
    """MLflow would not apply the view."""
    for mode in ("", "CHART", "ARTIFACT"):
        assert not {"searchFilter", "orderBy"} & {part.partition("=")[0] for part in view_query("x", mode).split("&")}


def test_a_large_study_fits_into_a_tag(tmp_path: Path) -> None:
    study = tagging(tmp_path / ("long-name-" * 12))
    assert len(*view_tag(study, [f"val/{name}" for name in ("f1", "error", "accuracy")]).values()) < 20_000


def test_a_study_of_many_metrics_has_all_columns_and_as_many_charts_as_a_tag_can_hold(study: Study) -> None:
    metrics = tuple(Metric(f"metric_number_{number}") for number in range(30))
    many = replace(study, task=replace(study.task, metrics=metrics))
    (tag,) = view_tag(many, ()).values()
    found = state(many)
    assert len(tag) <= LONGEST < len(tag) + 3_000, "the next metric's three charts do not fit"
    assert all(f"metrics.`final/{metric.name}`" in found["selectedColumns"] for metric in metrics)
    assert 3 <= len(found["compareRunCharts"]) < 90
