"""A study of another task than translation: its metrics, symbols and words are read from `study.json` alone."""

import csv
import io
import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from other_tasks import ACCURACY, DIGITS, TAGGING, digits, make, tagging, train
from studies_on_disk import Store, runs_of
from tables import by_name, shown

from tracking import shapes
from tracking.card import Card
from tracking.damage import DamagedFileError
from tracking.metrics import Metric
from tracking.replay import Replay
from tracking.study import Study, read_study, write_study
from tracking.table import table, to_csv, to_json, to_markdown
from tracking.translation_card import TRANSLATION
from transformer.config import SEMANTICS

FOREIGN = re.compile(r"ppl|bleu|chrf|table ?3|paper|sacre|published|beam|α|corpus|decod", re.IGNORECASE)
SETTING_COLUMNS = ("decode", "mixed_decode", "other_decode")


@pytest.fixture
def finished(tmp_path: Path) -> Study:
    return digits(tmp_path / "runs" / "digits", 0.9, 0.92, 0.95, 0.95)


@pytest.fixture
def tagged(tmp_path: Path) -> Study:
    return tagging(tmp_path / "runs" / "tagging", {"predict.threshold": 0.5}, {"predict.threshold": 0.5})


def test_one_metric_on_a_set_of_its_own(finished: Study) -> None:
    base, wide = table(finished)
    assert base.scores == {"accuracy": pytest.approx(0.91)}
    assert wide.deltas == {"accuracy": pytest.approx(0.04)}
    assert (base.seeds, base.params, base.flops, base.note, wide.delta_seeds) == (2, 4810, None, "", (1, 2))
    assert wide.published_deltas == {"accuracy": None}


def test_the_formats_of_the_table_have_its_columns_only(finished: Study) -> None:
    rows = table(finished)
    head, *lines = csv.reader(io.StringIO(to_csv(finished, rows)))
    assert head == [
        *("row", "group", "change", "seeds", "steps", "accuracy", "params", "flops", "seconds"),
        *("delta_accuracy", "asked", "note", "delta_seeds", "sd_accuracy", "unlike", "accuracy_s1", "accuracy_s2"),
    ]
    assert lines[1][:9] == ["wide", "size", "change of wide", "2", "10", "0.95", "4810", "", "2.5"]
    content = json.loads(to_json(finished, rows))
    assert list(content[0]) == [
        *("row", "group", "change", "seeds", "asked", "steps", "accuracy", "params", "flops", "seconds"),
        *("delta_accuracy", "delta_seeds", "cells", *SETTING_COLUMNS, "before_scaling"),
        *("seed_values", "sd_accuracy", "note", "unlike"),
    ]
    assert (content[0]["flops"], content[1]["cells"]) == (None, {"hidden": 128, "norm": "layer"})
    markdown = to_markdown(finished, rows).splitlines()
    assert markdown[0] == "|  | row | H | L | other | accuracy | Δaccuracy | params | FLOPs | time | note |"
    assert (
        markdown[3] == "| size | wide | 128 |  | layer normalization | 0.950 ± 0.000 | +0.040 | 4.810K |  | 2.5 s |  |"
    )
    caption = "accuracy: measured on test; time: measured; params: computed; FLOPs: unknown; Δ: difference from base. "
    spread = caption.replace("from base.", "from base; ±: standard deviation over seeds.")
    assert markdown[-1] == f"{spread}Seeds per row: 2."


@pytest.mark.parametrize("width", [60, 80, 200])
def test_nothing_of_translation_is_shown(finished: Study, tagged: Study, width: int) -> None:
    for study in (finished, tagged):
        rows = table(study)
        content = [{key: of for key, of in row.items() if key not in SETTING_COLUMNS} for row in _json(study)]
        texts = (to_csv(study, rows), to_markdown(study, rows), json.dumps(content), shown(study, width))
        assert not [found for text in texts if (found := FOREIGN.search(text))]
        assert max(map(len, texts[-1].splitlines())) <= width


def test_a_terminal_shows_what_fits(tagged: Study) -> None:
    assert "F1 [micro]" in shown(tagged, 200), "a label is no markup"
    wide, narrow = (" ".join(shown(tagged, width).split()) for width in (130, 80))
    assert "wider terminal" not in wide
    assert "A wider terminal also shows accuracy, Δaccuracy, params, FLOPs, time." in narrow


def test_three_metrics_on_two_sets(tagged: Study) -> None:
    base, deep = table(tagged)
    assert base.scores == {"f1": 91.25, "error": 0.125, "accuracy": 0.5}
    assert deep.deltas == {"f1": -1.0, "error": 0.0, "accuracy": 0.25}
    text = to_markdown(tagged, [base, deep])
    assert "F1 [micro] and error: measured on dev, threshold 0.5; accuracy: measured on test, threshold 0.5; " in text
    assert "F1 [micro]: over tokens; time: measured; params: counted, unknown where empty; FLOPs: unknown;" in text
    assert "| deep | depth 8, norm None | 90.2 | 0.12 | 0.750 | −1.0 | 0.00 | +0.250 |  |  | 2.5 s |  |" in text


def test_rows_that_are_not_finished_say_so_in_every_column(tmp_path: Path) -> None:
    study = digits(tmp_path / "begun", 0.9)
    study.trial_folder(study.trials[2]).write_error("ValueError: no")
    wide = list(csv.DictReader(io.StringIO(to_csv(study, table(study)))))[1]
    assert {wide[name] for name in ("accuracy", "delta_accuracy", "flops", "params", "steps")} == {"FAILED"}
    assert by_name(study)["base"].note == "1 of 2 seeds; s2 missing"
    assert "FLOPs: unknown" in to_markdown(study, table(study))
    assert "FAILED: ValueError: no" in " ".join(shown(study).split())


def test_other_settings_for_scoring_make_no_difference(tmp_path: Path) -> None:
    study = tagging(tmp_path / "other", {"predict.threshold": 0.5}, {"predict.threshold": 0.5, "predict.vote": 3})
    _, deep = table(study)
    assert (deep.deltas["f1"], deep.deltas["error"], deep.deltas["accuracy"]) == (None, 0.0, None)
    assert deep.note == "predict.vote 3, not default"
    assert "| 90.2 | 0.12 | 0.750 | other settings | 0.00 | other settings |" in to_markdown(study, table(study))
    about = replace(study, cells={**study.cells, "deep": {"vote": 3}})
    assert table(about)[1].note == "", "the row is about this setting"


def test_published_values_have_columns_where_a_row_has_them(tmp_path: Path) -> None:
    study = digits(tmp_path / "known", 0.9, 0.92, 0.95, 0.95)
    figures: dict[str, dict[str, float | None]] = {"base": {"accuracy": 0.9}, "wide": {"accuracy": 0.97}}
    study = replace(study, trials=tuple(replace(trial, published=figures[trial.row]) for trial in study.trials))
    assert table(study)[1].published_deltas == {"accuracy": 0.07}
    assert ",paper_accuracy,seconds,delta_accuracy,paper_delta_accuracy," in to_csv(study, table(study))
    assert "| paper accuracy | paper Δaccuracy |" in to_markdown(study, table(study))
    assert "+0.070" in shown(study)


def test_mlflow_gets_its_metrics_and_tags(runs: Path, store: Store) -> None:
    study = digits(runs / "digits-mlflow", 0.9)
    assert Replay(study.folder, *store).once().problems == ()
    (run,) = runs_of(study, store)
    assert run.data.metrics == {
        **{"final/accuracy": 0.9, "final/loss": 0.25, "delta/accuracy": 0.0, "params": 4810.0, "seconds": 2.5},
        **{"train/loss": 0.5, "checkpoint": 7.0},
    }
    tags = {name: value for name, value in run.data.tags.items() if name.startswith(("study.", "table3."))}
    assert tags == {
        "study.group": "base",
        "study.row": "01 base",
        "study.change": "change of base",
        "study.order": "0001",
    }
    assert not [name for name in {**run.data.tags, **run.data.params} if FOREIGN.search(name)]
    assert run.data.params["net.hidden"] == "64"


def test_settings_that_only_score_are_tags_and_no_params(runs: Path, store: Store) -> None:
    study = tagging(runs / "tagging-mlflow", {"predict.threshold": 0.5})
    study.trial_folder(study.trials[0]).result_path.unlink()
    for expected in ({"predict.threshold": "0.5", "predict.vote": "1"}, {"predict.threshold": "0.25"}):
        assert Replay(study.folder, *store).once().problems == ()
        (run,) = runs_of(study, store)
        assert {name: run.data.tags[name] for name in expected} == expected
        assert not [name for name in run.data.params if name.startswith("predict.")]
        train(study, 0, {"dev": {"f1": 90.0, "decode": {"predict.threshold": 0.25}}, "test": {"accuracy": 0.5}})


def test_the_files_of_a_trial_are_whole(finished: Study, tagged: Study) -> None:
    for study in (finished, tagged):
        folder = study.trial_folder(study.trials[0])
        assert folder.damage() == []
        assert folder.state(study.trials[0].key) == "finished"
    folder = finished.trial_folder(finished.trials[0])
    assert list(folder.evaluated()) == ["test"], "a task without artifacts needs none"
    assert tagged.trial_folder(tagged.trials[0]).evaluated()["test"]["scores"]["decode"] == {}
    assert folder.journal()[0].metrics["checkpoint"] == 7.0, "only translation had a metric of this name"


def test_artifacts_that_a_task_declares_belong_to_an_evaluated_set(finished: Study) -> None:
    study = replace(finished, task=replace(DIGITS, artifacts=("predictions",)))
    folder = study.trial_folder(study.trials[0])
    assert folder.evaluated() == {}
    folder.write_artifact("predictions/test.txt", "3\n4 5\n")
    assert (folder.path / "predictions" / "test.txt").read_text("utf-8") == "3\n4 5\n"
    assert list(folder.evaluated()) == ["test"]


RESULT = {"key": "k", "step": 1, "attempt": 1, "seed": 1}


@pytest.mark.parametrize(
    ("fault", "check", "content"),
    [
        ("accuracy must be a number", shapes.result, RESULT | {"scores": {"test": {"accuracy": "0.9", "decode": {}}}}),
        ("loss must be a number", shapes.statistics_head, {**RESULT, "scores": {"loss": True, "decode": {}}}),
        ("flops must be a number", shapes.result, RESULT | {"flops": "unknown", "scores": {}}),
        ("must have scores with their decode settings", shapes.result, RESULT | {"scores": {"test": {"decode": 1}}}),
        ("paths is missing", shapes.config, {"key": "k", "data_fingerprint": "f", "net": {"hidden": 3}}),
        (None, shapes.result, RESULT | {"scores": {"test": {"accuracy": None, "bleu": "not ours", "decode": {}}}}),
        (None, shapes.result, RESULT | {"params": None, "scores": {}}),
        (None, shapes.config, {"steps": 3, "net": {"hidden": 3}, "model": "mlp"}),
    ],
)
def test_the_shape_of_files_follows_from_the_task(fault: str | None, check: Any, content: dict[str, Any]) -> None:
    assert partial(check, card=DIGITS)(content) == fault


def test_a_card_reads_back_from_json_whatever_a_later_version_adds(tmp_path: Path) -> None:
    for card in (DIGITS, TAGGING, TRANSLATION):
        stored = json.loads(json.dumps(card.to_dict()))
        later = stored | {"license": "x", "metrics": [metric | {"color": "red"} for metric in stored["metrics"]]}
        assert Card.of(stored) == Card.of(later) == card
    least = {"name": "digits", "version": 1, "metrics": [{"name": "accuracy"}]}
    assert Card.of(least).headline == Metric("accuracy", "accuracy", "", "up", 3, "dev")
    study = make(tmp_path / "least", least, {"base": {}}, (1,))
    write_study(study)
    assert read_study(study.folder) == study


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"metrics": []}, "must have a metric for the table"),
        ({"metrics": [{"name": "a", "tabled": False}]}, "must have a metric for the table"),
        ({"metrics": [{"name": "a"}, {"name": "a"}]}, "a stands for two things"),
        ({"metrics": [{"name": "seconds"}]}, "seconds stands for two things"),
        ({"metrics": [{"name": "decode"}]}, "decode stands for two things"),
        ({"metrics": [{"name": "a"}, {"name": "delta_a"}]}, "delta_a stands for two things"),
        ({"metrics": [{"name": "a", "signature": "a"}]}, "a stands for two things"),
        ({"metrics": [{"name": "a b"}]}, "'a b' must have a name of letters"),
        ({"metrics": [{"name": "a/b"}]}, "'a/b' must have a name of letters"),
        ({"metrics": [{"name": 3}]}, "3 must have a name of letters"),
        ({"metrics": [{"name": "a", "better": "higher"}]}, "better up or down, but is better 'higher'"),
        ({"metrics": [{"name": "a", "decimals": -1}]}, "whole number of decimals"),
        ({"metrics": [{"name": "a", "table_decimals": 1.5}]}, "whole number of decimals"),
        ({"metrics": [{"name": "a", "set": 3}]}, "must have text as its set"),
        ({"metrics": [{"name": "a", "changed_by": "beam"}]}, "must have a list of settings"),
        ({"metrics": [{}]}, "KeyError|TypeError"),
        ({"metrics": None}, "TypeError"),
        ({"name": ""}, "plain name"),
        ({"version": "1"}, "whole number as its version"),
        ({"symbols": {"hidden": 3}}, "symbols must map text to text"),
        ({"symbols": ["hidden"]}, "symbols must map text to text"),
        ({"scoring": "threshold"}, "scoring must be a list of text"),
        ({"tags": None}, "tags must be text"),
        ({"millions": "no"}, "millions must be true or false"),
    ],
)
def test_a_wrong_card_is_a_damaged_study(tmp_path: Path, change: dict[str, Any], fault: str) -> None:
    with pytest.raises(DamagedFileError, match=rf"study\.json: not a study: .*({fault})"):
        make(tmp_path / "wrong", DIGITS.to_dict() | change, {"base": {}}, (1,))


def test_the_version_of_translation_is_that_of_its_trial_keys() -> None:
    assert TRANSLATION.version == SEMANTICS
    assert TRANSLATION.faults() == DIGITS.faults() == TAGGING.faults() == []


def test_the_better_direction_decides_the_best_value() -> None:
    assert (ACCURACY.best([0.5, None, 0.9]), replace(ACCURACY, better="down").best([0.5, None, 0.9])) == (0.9, 0.5)


def _json(study: Study) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(to_json(study, table(study)))
    return content
