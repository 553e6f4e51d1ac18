"""Words and columns of a table where metrics share a label, costs are missing, or a study is of an
earlier version."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from test_table_findings import losses, made_study, rows, table
from typed import printed

from tracking.card import Card, Metric
from tracking.statistics.study_findings import findings_line
from tracking.study import Study
from tracking.table.latex import for_latex
from tracking.table.tested_captions import _reason_words

A, B = (
    Metric(name, label="loss", set=set_name) for name, set_name in (("a", "dev"), ("b", "test"))
)


def edit_results(study: Study, **entries: Any) -> None:
    for trial in study.trials:
        path = study.trial_folder(trial).result_path
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def test_metrics_of_one_label_are_told_apart_by_their_sets() -> None:
    of_base = {"reference": "base", "shares_weights": False, "tests": {}}
    families = [
        SimpleNamespace(metric=metric, rows={"x": reason}, **of_base)
        for metric, reason in ((A, "1 seed"), (B, "2 seeds"))
    ]
    line = "loss on dev: 1 row not tested (1 seed); loss on test: 1 row not tested (2 seeds)"
    assert findings_line(cast(Any, families), "base") == line


def test_the_sense_of_up_and_down_is_said_only_where_one_is_shown(tmp_path: Path) -> None:
    base = (1.0, 1.01, 0.99)
    sense = "▲ and ▼ mean better and worse: lower loss is better."
    made_study(tmp_path / "clear", losses({"base": base, "worse": (2.0, 2.01, 1.99)}))
    assert sense in table(tmp_path / "clear")
    made_study(tmp_path / "unclear", losses({"base": base, "alike": (1.01, 1.0, 1.0)}))
    text = table(tmp_path / "unclear")
    assert "?: undecided" in text
    assert sense not in text


@pytest.mark.parametrize(
    ("other", "words"), [("2 seeds", "2 seeds"), (object(), "accuracy: 2 seeds")]
)
def test_a_reason_of_some_metrics_names_them(other: object, words: str) -> None:
    accuracy = Metric("accuracy")
    speed = Metric("speed")
    assert _reason_words([(accuracy, "2 seeds"), (speed, other)]) == words


def test_an_unknown_last_step_is_unknown_and_a_null_rate_is_none(tmp_path: Path) -> None:
    study = made_study(tmp_path, losses({"base": (1.0,)}))
    edit_results(study, step=0, steps=200, sustained=None)
    text = table(tmp_path, "--columns", "steps,loss")
    assert "unknown" in text.split("loss")[1]
    assert "not finite" not in text


def test_every_cost_of_an_unfinished_row_is_its_state_said_once(tmp_path: Path) -> None:
    study = made_study(tmp_path, losses({"base": (1.0,), "lost": (1.0,)}))
    edit_results(study, cpu_seconds=4.0)
    columns = ("--columns", "seconds,cpu_seconds,device_flops,device_hours")
    assert "CPU time: CPU seconds of training, over all workers" in table(tmp_path, *columns)
    folder = study.trial_folder(study.trials[1])
    folder.result_path.unlink()
    folder.write_error("ValueError: no")
    text = printed(tmp_path, "table", "sweep.name=made", *columns, "--format", "csv")
    assert text.splitlines()[2] == "lost,FAILED,FAILED,FAILED,FAILED"
    markdown = printed(tmp_path, "table", "sweep.name=made", *columns, "--format", "md")
    (line,) = [line for line in markdown.splitlines() if "change of lost" in line]
    assert re.findall(r"FAILED|–", line) == ["FAILED", "–", "–", "–"]
    study.trial_folder(study.trials[0]).result_path.unlink()
    assert "()" not in table(tmp_path, *columns)


def test_differences_at_common_seeds_are_sorted_with_the_best_first(tmp_path: Path) -> None:
    loss = Metric("loss", set="test")
    made_study(
        tmp_path, losses({"base": (1.0, 1.1), "low": (0.5, 0.6), "high": (2.0, 2.1)}), (loss,)
    )
    assert [*rows(tmp_path, "--sort", "delta_common_seeds_loss")] == ["high", "base", "low"]


def test_a_recorded_study_may_have_a_metric_whose_name_was_taken_since(tmp_path: Path) -> None:
    mfu = Metric("mfu", set="test")
    made_study(tmp_path, {"base": {1: {"mfu": 0.5}}, "row": {1: {"mfu": 0.75}}}, (mfu,))
    assert [row["mfu"] for row in rows(tmp_path).values()] == [0.5, 0.75]
    assert Card("toy", 1, (mfu,)).faults() == ["mfu has two meanings in tables and files"]


def test_subscripts_are_math_and_names_of_rows_are_not(tmp_path: Path) -> None:
    assert for_latex("β₁, β₂") == r"$\beta$$_{1}$, $\beta$$_{2}$"
    made_study(tmp_path, losses({"base": (1.0,), "x_2": (1.0,)}))
    text = printed(
        tmp_path, "table", "sweep.name=made", "--columns", "row,loss", "--row", "--format", "tex"
    )
    assert r"x\_2 &" in text
