"""A study of another task than translation: its metrics, symbols and words are read from
`study.json` alone."""

import csv
import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from other_tasks import digits, tagging, train
from studies_on_disk import Store, runs_of, send
from tables import shown, table_text

from tracking.statistics.table_rows import table
from tracking.study import Study
from tracking.table.frames import load

FOREIGN = re.compile(
    r"ppl|bleu|chrf|table ?3|paper|sacre|published|beam|α|corpus|decod", re.IGNORECASE
)
SETTING_COLUMNS = ("decode", "mixed_decode", "other_decode")


@pytest.fixture
def finished(tmp_path: Path) -> Study:
    return digits(tmp_path / "runs" / "digits", 0.9, 0.92, 0.95, 0.95)


@pytest.fixture
def tagged(tmp_path: Path) -> Study:
    return tagging(
        tmp_path / "runs" / "tagging", {"predict.threshold": 0.5}, {"predict.threshold": 0.5}
    )


def test_the_formats_of_the_table_have_its_columns_only(finished: Study) -> None:
    rows = table(finished)
    assert (rows[0].scores["accuracy"], rows[1].comparison.deltas["accuracy"]) == pytest.approx(
        (0.91, 0.04)
    )
    head, *lines = csv.reader(io.StringIO(table_text("csv", finished)))
    assert head == [
        *("row", "group", "change", "seeds", "steps", "accuracy", "params", "flops", "seconds"),
        *("delta_accuracy", "asked", "note", "diverged", "sd_accuracy", "unlike", "accuracy_s1"),
        *(
            "accuracy_s2",
            "delta_common_seeds_accuracy",
            "cpu_seconds",
            "device_flops",
            "mfu",
            "device_hours",
        ),
        *("weights", "reference", "paired"),
    ]
    assert lines[1][:9] == ["wide", "size", "change of wide", "2", "10", "0.95", "4810", "", "2.5"]
    content = json.loads(table_text("json", finished))
    objects = {*SETTING_COLUMNS, "before_scaling", "cells", "seed_values", "summary"}
    assert content[0].keys() == objects | {
        name for name in head if not name.startswith("accuracy_s")
    }
    assert (content[0]["flops"], content[1]["cells"]) == (None, {"hidden": 128, "norm": "layer"})
    markdown = table_text("md", finished).splitlines()
    assert markdown[0] == "|  | change | accuracy | Δaccuracy | params | FLOPs | time |"
    assert markdown[3] == "| size | change of wide | 0.950 ± 0.000 | +0.040 | 4.810K |  | 2.5 s |"
    page = html.unescape(table_text("html", finished))
    assert "layer normalization" in page
    assert markdown[-1] == (
        "accuracy: measured on test; time: measured; params: computed; FLOPs: unknown; Δ: "
        "difference from base, "
        "between means over all seeds of both; ±: standard deviation over seeds. Seeds per row: 2. "
        "Differences of rows with fewer than 3 seeds are not tested."
    )


@pytest.mark.parametrize("width", [60, 80, 200])
def test_nothing_of_translation_is_shown(finished: Study, tagged: Study, width: int) -> None:
    for study in (finished, tagged):
        content = []
        for row in _json(study):
            content.append({key: row[key] for key in row if key not in SETTING_COLUMNS})
        texts = (
            table_text("csv", study),
            table_text("md", study),
            json.dumps(content),
            shown(study, width),
        )
        assert not [match for text in texts if (match := FOREIGN.search(text))]
        assert max(map(len, texts[-1].splitlines())) <= width


def test_three_metrics_on_two_sets(tagged: Study) -> None:
    base, deep = table(tagged)
    assert base.scores == {"f1": 91.25, "error": 0.125, "accuracy": 0.5}
    assert deep.comparison.deltas == {"f1": -1.0, "error": 0.0, "accuracy": 0.25}
    text = table_text("md", tagged)
    assert (
        "F1 [micro] and error: measured on dev, threshold 0.5; accuracy: measured on test, "
        "threshold 0.5; " in text
    )
    assert (
        "F1 [micro]: over tokens; time: measured; params: counted, unknown where empty; FLOPs: "
        "unknown;" in text
    )
    assert "| change of deep | 90.2 | −1.0 | 0.12 | 0.00 | 0.750 | +0.250 |  |  | 2.5 s |" in text


def test_published_values_have_columns_where_a_row_has_them(finished: Study) -> None:
    trials = tuple(
        replace(trial, published={"accuracy": {"base": 0.9, "wide": 0.97}[trial.row]})
        for trial in finished.trials
    )
    study = replace(finished, trials=trials)
    assert ",paper_accuracy,seconds,delta_accuracy,paper_delta_accuracy," in table_text(
        "csv", study
    )
    assert "| Δaccuracy | paper Δ |" in table_text("md", study)
    assert "+0.070" in shown(study)


def test_mlflow_gets_its_metrics_and_tags(runs: Path, store: Store) -> None:
    study = digits(runs / "digits-mlflow", 0.9)
    record = {"commit": "c0ffee", "samples": {"train": 5}, "cpu": {"model": "one", "count": 2}}
    study.trial_folder(study.trials[0]).provenance_path.write_text(json.dumps(record), "utf-8")
    send(study)
    (run,) = runs_of(study, store)
    assert run.data.metrics == {
        **{
            "final/accuracy": 0.9,
            "final/loss": 0.25,
            "delta/accuracy": 0.0,
            "params": 4810.0,
            "seconds": 2.5,
        },
        **{"train/loss": 0.5, "checkpoint": 7.0, "samples/train": 5.0},
    }
    tags = {
        name: value
        for name, value in run.data.tags.items()
        if name.startswith(("study.", "table3."))
    }
    assert tags == {
        "study.group": "base",
        "study.row": "01 base",
        "study.change": "change of base",
        "study.order": "0001",
    }
    assert not [name for name in {**run.data.tags, **run.data.params} if FOREIGN.search(name)]
    assert run.data.params["net.hidden"] == "64"


def test_seeds_that_stopped_before_their_steps_are_marked_in_every_output(
    runs: Path, store: Store
) -> None:
    study = digits(runs / "digits-stopped", 0.9, 0.92)
    for index, planned in ((2, {}), (3, {"steps": 500})):
        train(study, index, {"test": {"accuracy": 0.95, "loss": 0.25}}, **planned)
    rows = table(study)
    note = "stopped at 10 of 500 (s2)"
    below = "planned steps; means include these seeds: wide (seed 2)."
    assert [(row.scores["accuracy"], row.notes.full) for row in rows] == [
        (pytest.approx(0.91), ""),
        (0.95, note),
    ]
    texts = {
        "| change of wide§<br>": table_text("md", study),
        "change of wide$^{\\S}$ &": table_text("tex", study),
        ">wide§<": table_text("html", study),
        "change of wide§": shown(study),
    }
    for mark, text in texts.items():
        assert mark in text
        words = " ".join(text.split())
        ended = "planned steps" if "tabular" in text else below
        assert all(part in words for part in (note, f"training ended before its {ended}")), text
    assert note in table_text("csv", study)
    assert [row["note"] for row in _json(study)] == ["", note]
    assert load(study.folder).trials["note"].to_list() == ["", "", "", "stopped at 10 of 500"]
    send(study)
    tags = {run.data.tags["trial.key"]: run.data.tags for run in runs_of(study, store)}
    assert [tags[trial.key].get("study.stopped_at") for trial in study.trials] == [
        None,
        None,
        None,
        "10 of 500",
    ]


def _json(study: Study) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(table_text("json", study))
    return content
