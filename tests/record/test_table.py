"""What a table says follows from the record: every digit, every difference, every reason, by the command line."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import other_tasks
from finished_trials import study_in, sweep
from typed import printed

from tracking.card import Card, Metric
from tracking.study import Study, StudyTrial, read_study, write_study

LOSS = Metric("loss", better="down", set="test")
Values = Mapping[str, Mapping[int, float]]
"""Row -> seed -> value of the only metric."""
THREE = (1, 2, 3)


def made_study(folder: Path, values: Values, metric: Metric = LOSS, **fields: Any) -> Study:
    """A finished study of hand-written folders, in ``runs/made``."""
    trials = tuple(
        StudyTrial(row, "base" if row == "base" else "A", f"change of {row}", seed, f"{row}-{seed}", {})
        for row, seeds in values.items()
        for seed in seeds
    )
    home = (folder / "runs" / "made").resolve()
    write_study(Study(home, trials, {}, (), task=Card("toy", 1, (metric,)), **fields))
    study = read_study(home)
    for place, trial in enumerate(trials):
        other_tasks.train(study, place, {metric.set: {metric.name: values[trial.row][trial.seed]}})
    return study


def table(folder: Path, *words: str) -> str:
    return " ".join(printed(folder, "table", "sweep.name=made", *words).split())


def rows(folder: Path, *words: str) -> dict[str, dict[str, Any]]:
    text = printed(folder, "table", "sweep.name=made", "--format", "json", *words)
    return {row["row"]: row for row in json.loads(text)}


def csv_rows(folder: Path, *words: str) -> dict[str, dict[str, str]]:
    text = printed(folder, "table", "sweep.name=made", "--format", "csv", *words)
    return {row["row"]: row for row in csv.DictReader(io.StringIO(text))}


def test_a_small_value_is_never_shown_as_zero_nor_written_as_one(tmp_path: Path) -> None:
    base, small = (1.00e-10, 1.02e-10, 1.01e-10), (2.00e-10, 1.97e-10, 1.97e-10)
    values = {"base": dict(zip(THREE, base, strict=True)), "small": dict(zip(THREE, small, strict=True))}
    made_study(tmp_path, values)
    row, line = rows(tmp_path)["small"], csv_rows(tmp_path)["small"]
    assert row["low_loss"] < row["delta_loss"] < row["high_loss"]
    assert row["delta_loss"] == row["loss"] - rows(tmp_path)["base"]["loss"]
    assert float(line["delta_loss"]) == row["delta_loss"]
    text = table(tmp_path, "--intervals")
    assert "+9.7e−11▼" in text
    assert "1.0e−10" in text
    assert "[+" in text
    made_study(tmp_path / "alike", {"base": {1: 0.9, 2: 0.8}, "same": {1: 0.85, 2: 0.85}})
    assert rows(tmp_path / "alike")["same"]["delta_loss"] == 0.0, "only rounding errors set the two means apart"


def test_seeds_added_after_results_are_said_on_any_clock(tmp_path: Path) -> None:
    """Results of the first seeds were written by a machine whose clock is centuries ahead."""
    rows_typed = "sweep.rows=[base,big]"
    sweep(tmp_path, rows_typed, "sweep.seeds=[1,2,3]")
    for trial in study_in(tmp_path).trials:
        folder = study_in(tmp_path).trial_folder(trial)
        result = folder.result()
        assert result is not None
        result["scores"]["dev"] |= {"bleu": 30.0 + trial.seed, "nll": 1.5 + trial.seed / 10}
        folder.write_result(result)
        attempts = [json.loads(line) for line in folder.attempts_path.read_text().splitlines()]
        folder.attempts_path.write_text("".join(json.dumps(line | {"ts": 9e10}) + "\n" for line in attempts))
    assert "Seeds were added" not in printed(tmp_path, "table", "--format", "md")
    sweep(tmp_path, rows_typed, "sweep.seeds=[4]", add=True)
    assert "Seeds were added once after first results (4)" in printed(tmp_path, "table", "--format", "md")


def test_a_row_that_builds_on_another_has_no_published_figures_of_it(tmp_path: Path) -> None:
    """The example of docs/configuration.md, and a row that states a figure of its own."""
    example = '# @package _global_\ndefaults: [big, _self_]\nrow: {group: big, change: "big, P_drop 0.1"}\n'
    stated = "# @package _global_\ndefaults: [big, _self_]\nrow: {published: {bleu: 26.0}}\n"
    (tmp_path / "conf" / "row").mkdir(parents=True)
    (tmp_path / "conf" / "row" / "big_dropout.yaml").write_text(example + "model: {p_drop: 0.1}\n", "utf-8")
    (tmp_path / "conf" / "row" / "stated.yaml").write_text(stated + "model: {p_drop: 0.2}\n", "utf-8")
    sweep(tmp_path, "sweep.rows=[base,big,big_dropout,stated]", "sweep.seeds=[1,2,3]")
    study = study_in(tmp_path)
    published = {trial.row: trial.published for trial in study.trials}
    assert published["big"] == {"ppl": 4.33, "bleu": 26.4, "params_m": 213}
    assert set(published["big_dropout"].values()) == {None}
    assert {name: value for name, value in published["stated"].items() if value is not None} == {"bleu": 26.0}
    assert "P_drop 0.2" in study.trials[-1].change, "its change is said in its own words"
    found = json.loads(printed(tmp_path, "table", "--format", "json"))
    row = next(each for each in found if each["row"] == "big_dropout")
    assert [row["paper_ppl"], row["paper_delta_ppl"], row["verdict_ppl"]] == [None, None, ""]
