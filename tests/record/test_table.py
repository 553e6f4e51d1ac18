"""What a table says follows from the record: every digit, every difference, every reason, by the command line."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import other_tasks
import sentence_studies
from finished_trials import study_in, sweep
from typed import printed

from tracking.card import Card, Metric
from tracking.study import Study, StudyTrial, read_study, write_study

LOSS = Metric("loss", better="down", set="test")
Scores = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""Row -> seed -> scores on the set test."""
THREE = (1, 2, 3)


def losses(values: Mapping[str, Sequence[float]]) -> Scores:
    """Of seeds 1, 2, …"""
    return {row: {seed: {"loss": value} for seed, value in enumerate(of, 1)} for row, of in values.items()}


def made_study(
    folder: Path,
    scores: Scores,
    metrics: tuple[Metric, ...] = (LOSS,),
    published: Mapping[str, Mapping[str, float]] | None = None,
    **fields: Any,
) -> Study:
    """A finished study of hand-written folders, in ``runs/made``."""
    figures: dict[str, float | None] = dict.fromkeys([metric.name for metric in metrics])
    trials = tuple(
        StudyTrial(
            *(row, "base" if row == "base" else "A", f"change of {row}", seed, f"{row}-{seed}"),
            figures | dict((published or {}).get(row, {})),
        )
        for row, seeds in scores.items()
        for seed in seeds
    )
    home = (folder / "runs" / "made").resolve()
    write_study(Study(home, trials, {}, (), task=Card("toy", 1, metrics), **fields))
    study = read_study(home)
    for place, trial in enumerate(trials):
        other_tasks.train(study, place, {"test": dict(scores[trial.row][trial.seed])})
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
    small = (2.00e-10, 1.97e-10, 1.97e-10)
    made_study(tmp_path, losses({"base": (1.00e-10, 1.02e-10, 1.01e-10), "small": small}))
    row, line = rows(tmp_path)["small"], csv_rows(tmp_path)["small"]
    assert row["low_loss"] < row["delta_loss"] < row["high_loss"]
    assert row["delta_loss"] == row["loss"] - rows(tmp_path)["base"]["loss"]
    assert float(line["delta_loss"]) == row["delta_loss"]
    text = table(tmp_path, "--intervals")
    assert "+9.7e−11▼" in text
    assert "1.0e−10" in text
    assert "[+" in text
    made_study(tmp_path / "alike", losses({"base": (0.9, 0.8), "same": (0.85, 0.85)}))
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


PPL = Metric("ppl", "PPL", better="down", decimals=2, set="test", within="pieces")
ACCURACY = Metric("accuracy", set="test")


def pieces_study(folder: Path, pieces: Mapping[str, str]) -> Study:
    """Rows with their vocabulary; where it is empty, trials do not record it. The data of v500 is another."""
    scores: dict[str, dict[int, dict[str, Any]]] = {}
    for place, (row, digest) in enumerate(pieces.items()):
        recorded = {"pieces": digest} if digest else {}
        scores[row] = {
            seed: {"ppl": 4.0 + place + seed / 50, "accuracy": 0.5 + place / 10 + seed / 90, **recorded}
            for seed in THREE
        }
    published = {row: {"ppl": 5.0 + place} for place, row in enumerate(pieces)}
    study = made_study(folder, scores, (PPL, ACCURACY), published)
    for trial in study.trials:
        if trial.row == "v500":
            path = study.trial_folder(trial).config_path
            path.write_text(path.read_text("utf-8").replace("f" * 64, "e" * 64), "utf-8")
    return study


VOCABULARIES = {"base": "a", "deep": "a", "wide": "a", "thin": "a", "v500": "b"}


def test_scores_over_other_pieces_have_no_difference_in_any_output(tmp_path: Path) -> None:
    study = pieces_study(tmp_path, VOCABULARIES)
    row = rows(tmp_path)["v500"]
    assert (row["delta_ppl"], row["paper_delta_ppl"], row["p_ppl"]) == (None, None, None)
    assert row["finding_ppl"] == "not tested: other pieces than base"
    assert (row["delta_accuracy"] > 0, row["finding_accuracy"]) == (True, "better")
    line = csv_rows(tmp_path)["v500"]
    assert (line["delta_ppl"], line["paper_delta_ppl"]) == ("not compared", "")
    assert line["finding_ppl"] == "not tested: other pieces than base"
    text = table(tmp_path)
    assert "PPL has no Δ where scores can't be compared: v500 (other pieces than base)." in text
    assert "3 to 4 rows of 3 seeds are compared" in text, "the family counts the other rows alone"
    assert "Order of the 3 tested rows" in table(tmp_path, "--verdict")
    printed(tmp_path, "report", "sweep.name=made", "--no-figures")
    assert "v500 (other pieces than base)" in (study.folder / "report.html").read_text("utf-8")
    compared = json.loads(printed(tmp_path, "compare", "base", "v500", "sweep.name=made", "--json"))
    ppl, accuracy = compared["pairs"][0]["metrics"]
    assert (ppl["difference"], ppl["over_seeds"]) == (None, {"untested": "other pieces than base"})
    assert accuracy["difference"] == row["delta_accuracy"]


def test_trials_that_do_not_record_their_pieces_are_told_apart_by_their_data(tmp_path: Path) -> None:
    pieces_study(tmp_path, dict.fromkeys(VOCABULARIES, ""))
    found = rows(tmp_path)
    assert found["v500"]["finding_ppl"] == "not tested: other pieces than base"
    assert found["deep"]["delta_ppl"] is not None


def test_perplexities_of_another_vocabulary_are_not_compared(tmp_path: Path) -> None:
    """As a sweep leaves them; these trials do not record their pieces."""
    sweep(tmp_path, "sweep.rows=[base,big]", "sweep.vary={data.vocab_size: [500]}", "sweep.seeds=[1,2,3]")
    found = {row["row"]: row for row in json.loads(printed(tmp_path, "table", "--format", "json"))}
    assert (found["vocab_size_500"]["delta_ppl"], found["vocab_size_500"]["delta_bleu"]) == (None, 0.0)
    assert found["big"]["delta_ppl"] == 0.0


def test_a_set_of_three_samples_is_not_tested(tmp_path: Path) -> None:
    """The row is right in each of them, and base in none."""
    study = sentence_studies.make(tmp_path / "runs" / "made", {"base": 0.5, "right": 0.5}, (1,))
    for place, chance in enumerate((0.01, 1.0)):
        sentence_studies.finish(study, place, sentence_studies.lines(place, chance)[:3])
    assert "Not tested over samples: right (3 samples)." in table(tmp_path, "--sentences", "--format", "md")
    found = rows(tmp_path, "--sentences")["right"]["sample_tests"]
    assert found["accuracy"] == {"1": "3 samples"}
    compared = printed(tmp_path, "compare", "base", "right", "sweep.name=made", "--metric", "accuracy")
    assert "not tested: 3 samples" in " ".join(compared.split())
