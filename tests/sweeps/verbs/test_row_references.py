"""Rows that are compared with another row than base (`sweep.references`): in the table, the report
and `compare`."""

import json
from pathlib import Path
from typing import Any

import pytest
from scipy import stats
from test_table_findings import losses, made_study
from typed import printed

from tracking.study import read_study, write_study

MADE = "sweep.name=made"
REFERENCES = {"wide_a": "wide", "wide_b": "wide"}
MEANS = {"base": 10.0, "other": 10.4, "wide": 12.0, "wide_a": 12.5, "wide_b": 9.0}
SPREAD = 0.3


def around(mean: float, seeds: int = 3) -> list[float]:
    """Values with the same variance for any three seeds."""
    return [mean + SPREAD * (seed % 3 - 1) for seed in range(seeds)]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    scores = losses({row: around(mean) for row, mean in MEANS.items()})
    made_study(tmp_path, scores, references=REFERENCES)
    return tmp_path


def rows(folder: Path, *words: str) -> dict[str, dict[str, Any]]:
    text = printed(folder, "table", MADE, "--format", "json", *words)
    return {row["row"]: row for row in json.loads(text)}


def on_one_line(text: str) -> str:
    return " ".join(text.replace("\\_", "_").replace("\\%", "%").split())


def test_a_row_differs_from_its_reference_and_all_rows_are_one_family(here: Path) -> None:
    table = rows(here)
    references = {"other": "base", "wide": "base", **REFERENCES}
    assert {row: table[row]["reference"] for row in references} == references
    p_values = dict[str, float]()
    for row, reference in references.items():
        difference = MEANS[row] - MEANS[reference]
        assert table[row]["delta_loss"] == pytest.approx(difference)
        error = (2 * SPREAD**2 / 3) ** 0.5
        p_values[row] = 2 * float(stats.t.sf(abs(difference) / error, df=2 * len(MEANS)))
    corrected = 0.0
    for place, row in enumerate(sorted(p_values, key=p_values.__getitem__)):
        corrected = max(corrected, min(1.0, p_values[row] * (len(p_values) - place)))
        assert table[row]["p_loss"] == pytest.approx(corrected, rel=1e-6)
    assert table["wide_b"]["finding_loss"].startswith("better")
    assert table["base"]["finding_loss"] == "reference"


def test_every_text_says_with_which_row_each_is_compared(here: Path) -> None:
    texts = [
        printed(here, "table", MADE, "--format", form, *words)
        for form, words in (("md", ()), ("tex", ()), ("tex", ("--long",)), ("html", ("--short",)))
    ]
    printed(here, "report", MADE)
    texts.append((here / "runs" / "made" / "report.html").read_text("utf-8"))
    for text in map(on_one_line, texts):
        assert "difference from base, for wide_a and wide_b from wide" in text
    compared = "2 rows (3 seeds) are compared with base (3 seeds) and 2 rows (3 seeds) with wide"
    for text in map(on_one_line, (texts[0], texts[2], texts[4])):
        assert compared in text
        assert "5 % level over all rows (Holm)" in text
        assert "better than its reference" in text
    assert "Differences from base and wide in loss are tested" in on_one_line(texts[4])
    summary = rows(here)["base"]["summary"]
    assert "Against wide: 1 row better than wide" in summary


def test_base_of_the_command_line_replaces_every_reference(here: Path) -> None:
    table = rows(here, "--base", "base")
    assert {row["reference"] for row in table.values()} == {"base"}
    assert table["wide_a"]["delta_loss"] == pytest.approx(2.5)
    study = read_study(here / "runs" / "made")
    write_study(
        study.__class__(**{**vars(study), "references": {}})  # the study of an earlier version
    )
    assert rows(here) == table
    assert "references" not in (here / "runs" / "made" / "study.json").read_text("utf-8")


def test_compare_tests_a_row_with_its_reference_as_the_table_does(here: Path) -> None:
    table = rows(here)
    for reference, row in (("wide", "wide_b"), ("base", "wide")):
        text = printed(here, "compare", reference, row, MADE, "--json")
        (metric,) = json.loads(text)["pairs"][0]["metrics"]
        assert metric["difference"] == pytest.approx(table[row]["delta_loss"])
        assert metric["over_seeds"]["p"] == pytest.approx(table[row]["p_loss"])
        assert metric["rows"] == 4
        text = on_one_line(printed(here, "compare", reference, row, MADE))
        assert "over the 4 rows of the study, as in the table" in text
        assert "--base" not in text
    assert "--base other" in on_one_line(printed(here, "compare", "other", "wide", MADE))


def test_a_paired_study_takes_the_seeds_in_common_with_the_reference(tmp_path: Path) -> None:
    values = {"base": [1.0, 2.0, 3.5], "wide": [5.0, 4.0, 6.0], "wide_a": [5.5, 4.4, 6.4, 9.0]}
    made_study(tmp_path, losses(values), references={"wide_a": "wide"}, paired=True)
    row = rows(tmp_path)["wide_a"]
    assert row["delta_loss"] == pytest.approx(1.3 / 3)
    assert row["p_loss"] < 0.05
    text = on_one_line(printed(tmp_path, "table", MADE, "--format", "md"))
    assert "Δ uses the seeds in common with wide, 1 to 3: wide_a." in text


def test_a_reference_with_more_seeds_says_so(tmp_path: Path) -> None:
    seeds = {"base": 6, "wide": 6}
    scores = {row: around(mean, seeds.get(row, 3)) for row, mean in MEANS.items()}
    made_study(tmp_path, losses(scores), references=REFERENCES)
    text = on_one_line(printed(tmp_path, "table", MADE, "--format", "md"))
    assert "Seeds differ: base has 1 to 6; other has 1 to 3." in text
    assert "Seeds differ: wide has 1 to 6; wide_a and wide_b have 1 to 3." in text
    assert "2 rows (3 seeds) with wide (6 seeds)" in text
