"""Rows that score another row's weights, in `table`, `report` and `compare`, as a person types
them."""

import csv
import io
import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import scoring_studies as made
from typed import printed, refusal

from tracking.study import read_study

STUDY = "sweep.name=made"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    made.make(tmp_path / "runs" / "made")
    return tmp_path


def chosen(here: Path, *words: str) -> dict[str, dict[str, Any]]:
    rows = json.loads(printed(here, "table", STUDY, "--chosen", "bleu", "--format", "json", *words))
    return {row["weights"]: row for row in rows}


def test_the_best_on_dev_stands_with_its_score_on_test_and_how_it_was_chosen(here: Path) -> None:
    rows = chosen(here)
    assert [*rows] == ["base", "deep", "big"], "one line for the weights of each trained row"
    best = rows["base"]
    assert (best["row"], best["chosen_among"], best["chosen_on"], best["seeds"]) == (
        "beam_8",
        3,
        "dev",
        5,
    )
    assert best["bleu_dev"] == pytest.approx(mean(made.BLEU["beam_8"].values()))
    assert best["bleu_test"] == pytest.approx(best["bleu_dev"] - 1)
    assert (rows["big"]["row"], rows["big"]["chosen_among"]) == ("big", 2), (
        "the host is one of those"
    )
    assert (rows["deep"]["row"], rows["deep"]["chosen_among"]) == ("deep", None), (
        "there was nothing to choose"
    )


def test_a_chosen_score_is_marked_wherever_it_stands(here: Path) -> None:
    for words in ([], ["--format", "md"], ["--format", "html"]):
        text = printed(here, "table", STUDY, "--chosen", "bleu", *words)
        assert text.count("†") == 5, "two scores of base's weights, two of big's, and the caption"
        assert "beam_8 chosen among 3 on dev" in " ".join(text.split())
    (line,) = [
        line
        for line in printed(here, "table", STUDY, "--chosen", "bleu", "--format", "md").splitlines()
        if "change of deep" in line
    ]
    assert "†" not in line
    assert "chosen_among" in next(
        csv.reader(
            io.StringIO(printed(here, "table", STUDY, "--chosen", "bleu", "--format", "csv"))
        )
    )


def test_rivals_are_compared_at_the_seeds_that_all_have(tmp_path: Path) -> None:
    bleu = {
        "base": {1: 30.0, 2: 31.0, 3: 20.0},
        "beam_1": {1: 30.1, 2: 31.1},
        "beam_8": {1: 30.2, 2: 30.7, 3: 40.0},
    }
    made.make(tmp_path / "runs" / "made", bleu)
    best = chosen(tmp_path)["base"]
    assert (best["row"], best["seeds"], best["bleu_dev"]) == ("beam_1", 2, pytest.approx(30.6))
    bleu["beam_8"] = {2: 30.7}
    made.make(tmp_path / "fewer" / "runs" / "made", bleu)
    text = " ".join(printed(tmp_path / "fewer", "table", STUDY, "--chosen", "bleu").split())
    assert "Scores of beam_1 are at seed 2, which all 3 rows with base's weights have." in text


def test_a_row_without_a_score_is_named_as_no_rival(here: Path) -> None:
    study = read_study(here / "runs" / "made")
    for trial in study.trials:
        if trial.row == "beam_8":
            study.trial_folder(trial).result_path.unlink()
    text = " ".join(printed(here, "table", STUDY, "--chosen", "bleu").split())
    assert "base and big chosen among 2 on dev" in text
    assert "Excluded because they have no score on dev: beam_8." in text


def test_what_cannot_be_chosen_is_refused(here: Path, tmp_path: Path) -> None:
    text = refusal(here, "table", STUDY, "--chosen", "blue")
    assert "--chosen" in text
    assert "bleu" in text
    text = refusal(here, "table", STUDY, "--chosen", "bleu", "--set", "test", "--best")
    assert "can't be combined with --set and --best" in text
    made.make(tmp_path / "runs" / "alone", {"base": {1: 30.0}})
    text = refusal(here, "table", "sweep.name=alone", "--chosen", "bleu")
    assert "has nothing to choose from: no row of alone only scores another row's weights" in text


def test_compare_tests_a_row_with_its_host_as_the_table_does(here: Path) -> None:
    table = {
        row["row"]: row for row in json.loads(printed(here, "table", STUDY, "--format", "json"))
    }
    for row, host, rows in (("beam_1", "base", 2), ("big_beam_1", "big", 1)):
        comparison = json.loads(
            printed(here, "compare", host, row, STUDY, "--json", "--metric", "bleu")
        )
        (bleu,) = comparison["pairs"][0]["metrics"]
        assert bleu["paired"]
        assert bleu["difference"] == pytest.approx(table[row]["delta_bleu"])
        assert bleu["over_seeds"]["p"] == pytest.approx(table[row]["p_bleu"])
        assert bleu["rows"] == rows
    text = printed(here, "compare", "base", "beam_1", STUDY)
    assert "difference and paired t-test are seed by seed, at the seeds that both have" in text
    assert "over the 2 rows with these weights, as in the table" in text
    unpaired = json.loads(
        printed(here, "compare", "base", "big_beam_1", STUDY, "--json", "--metric", "bleu")
    )
    assert not unpaired["pairs"][0]["metrics"][0]["paired"], "they do not share weights"


def test_the_report_has_the_first_line_and_the_families(here: Path) -> None:
    printed(here, "report", STUDY, "--no-figures")
    page = (here / "runs" / "made" / "report.html").read_text()
    assert "BLEU with base&#39;s weights: 1 row worse than base, 1 undecided (5 seeds)" in page
    assert "2 rows that score base&#39;s weights are compared with base" in page


def test_the_figure_of_differences_says_from_which_rows_they_are(here: Path) -> None:
    printed(here, "report", STUDY)
    page = (here / "runs" / "made" / "report.html").read_text()
    assert "Differences from the row that its Δ is from" not in page
    assert "Differences between rows" in page
