"""What the table says of chance: spread, marks, intervals, what is not tested, and why."""

import csv
import io
import json
import math
from pathlib import Path
from statistics import fmean, stdev

import pytest
import sentence_studies as reading
from other_tasks import DIGITS, make, train
from studies_on_disk import begin, finish
from tables import by_name, seeded, shown

from tracking.rows import TableRow, table
from tracking.statistics.findings import Findings, find, with_tested
from tracking.study import Study
from tracking.table.caption import caption
from tracking.table.printed import to_csv, to_json, to_markdown
from tracking.table.view import View, viewed

BASE = [(4.00, 30.0), (4.04, 30.4), (3.96, 29.6)]
WORSE = [(5.00, 20.0), (5.10, 20.4), (4.90, 19.6)]
LIKE = [(4.02, 30.2), (3.98, 29.9), (4.03, 30.5)]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Three seeds: one row is worse, one is like base."""
    return seeded(tmp_path_factory.mktemp("chance") / "three", base=BASE, a_heads_1=WORSE, c_layers_2=LIKE)


def looked(study: Study, base: str = "base") -> tuple[list[TableRow], Findings]:
    rows = table(study, base)
    findings = find(study, rows, base)
    return with_tested(rows, study.task, findings), findings


def lines_of(study: Study, view: View | None = None) -> dict[str, dict[str, str]]:
    rows, findings = looked(study)
    rows = viewed(study.task, rows, view, findings) if view else rows
    text = to_csv(study, rows, view or View(), findings)
    return {line["row"]: line for line in csv.DictReader(io.StringIO(text))}


def words(study: Study) -> str:
    rows, findings = looked(study)
    return caption(study.task, rows, findings)


def test_a_row_that_differs_by_both_tests_has_a_star(study: Study) -> None:
    text = shown(study, tested=True)
    line = next(line for line in text.splitlines() if "20.0" in line)
    assert line[line.index("5.00") :].split()[:6] == ["5.00±0.10", "+1.00*", "+0.37", "20.0±0.4", "−10.0*", "−0.9"]
    like = next(line for line in text.splitlines() if "4.01" in line)
    assert "*" not in like
    assert "†" not in text, "a mark that no row has is not explained"
    assert "2 rows are tested against base" in words(study)


def test_perplexity_is_tested_as_its_logarithm(study: Study) -> None:
    logs = {name: [math.log(ppl) for ppl, _ in of] for name, of in (("base", BASE), ("worse", WORSE))}
    row = by_name(study)["a_heads_1"]
    assert row.scores["ppl"] == pytest.approx(math.exp(fmean(logs["worse"])))
    assert row.sd["ppl"] == pytest.approx(stdev(ppl for ppl, _ in WORSE))
    test = looked(study)[1].seeds["ppl"].family.tests["a_heads_1"]
    assert test.difference == pytest.approx(fmean(logs["worse"]) - fmean(logs["base"]))
    line = lines_of(study)["a_heads_1"]
    low, difference, high = (float(line[name]) for name in ("low_ppl", "delta_ppl", "high_ppl"))
    reference = math.exp(fmean(logs["base"]))
    assert difference == pytest.approx(reference * math.expm1(test.difference))
    assert low == pytest.approx(reference * math.expm1(test.low))
    assert high == pytest.approx(reference * math.expm1(test.high))
    assert low < difference < high


def test_files_for_programs_have_every_number_of_the_tests(study: Study) -> None:
    lines = lines_of(study)
    assert lines["a_heads_1"]["test_bleu"] == "difference shown"
    assert needed(lines["c_layers_2"]["test_bleu"]) > 3
    assert (lines["base"]["test_bleu"], lines["base"]["p_bleu"]) == ("reference", "")
    assert float(lines["a_heads_1"]["p_bleu"]) < 0.05 < float(lines["c_layers_2"]["p_bleu"])
    assert [lines["base"][f"bleu_s{seed}"] for seed in (1, 2, 3)] == ["30.0", "30.4", "29.6"]
    rows, findings = looked(study)
    first, worse, _ = json.loads(to_json(study, rows, findings=findings))
    assert (first["low_ppl"], worse["p_welch_ppl"] < 0.05) == (None, True)
    assert set(worse["sample_tests"]["bleu"]) == {"1", "2", "3"}
    assert all(isinstance(why, str) for why in worse["sample_tests"]["bleu"].values()), "no counts were kept"


def needed(text: str) -> int:
    """The seeds of "no difference shown; would need ≥ 12 seeds"."""
    start, _, rest = text.partition("would need ≥ ")
    assert start == "no difference shown; "
    return int(rest.removesuffix(" seeds"))


def test_any_row_can_be_the_reference(study: Study) -> None:
    rows, findings = looked(study, "a_heads_1")
    named = {row.row: row for row in rows}
    assert named["base"].deltas["bleu"] == pytest.approx(10.0)
    assert named["a_heads_1"].deltas["bleu"] == 0.0
    assert named["base"].published_deltas["ppl"] == -0.37
    text = to_markdown(study, rows, findings=findings)
    assert "Δ: difference from a_heads_1" in text
    assert "| +10.0\\* |" in text


@pytest.mark.parametrize(
    ("scores", "why"),
    [
        (LIKE[:2], "2 seeds"),
        (LIKE[:1], "1 seed"),
        ([*LIKE[:2], None], "2 seeds"),
        ([*LIKE[:2], (math.inf, 30.0)], "1 of 3 seeds without a finite score"),
        ([None], "no seed"),
    ],
)
def test_a_row_that_is_not_tested_says_why(tmp_path: Path, scores: list[tuple[float, float] | None], why: str) -> None:
    study = seeded(tmp_path / "untested", base=BASE, a_heads_1=WORSE, c_layers_2=scores)
    line = lines_of(study)["c_layers_2"]
    assert line["test_ppl"] == f"not tested: {why}"
    assert (line["p_ppl"], line["low_ppl"]) == ("", "")
    named = f"PPL: {why}" if "finite" in why else why  # the other metric is finite
    assert f"Not tested over seeds: c_layers_2 ({named})." in words(study)
    assert "1 row are" not in words(study)
    assert lines_of(study)["a_heads_1"]["test_ppl"] == "difference shown"


def test_rows_with_other_settings_for_scoring_leave_the_family(tmp_path: Path) -> None:
    study = seeded(tmp_path / "other", base=BASE, a_heads_1=WORSE, c_layers_2=LIKE)
    for trial in study.trials[6:]:
        decode = {"beam": 8, "alpha": 0.6, "max_extra": 50, "average_checkpoints": 1}
        finish(study, trial, begin(study.trial_folder(trial)), 30, ppl=4.0, bleu=30.0, decode=decode)
    line = lines_of(study)["c_layers_2"]
    assert line["test_bleu"] == "not tested: other settings"
    assert line["test_ppl"].startswith("no difference shown"), "a beam does not change perplexity"


def test_a_tested_difference_is_over_all_seeds_of_both_rows(tmp_path: Path) -> None:
    study = seeded(tmp_path / "more", base=BASE, a_heads_1=[*WORSE, (5.0, 16.0)], c_layers_2=LIKE)
    (row,) = (row for row in table(study) if row.row == "a_heads_1")
    assert (row.deltas["bleu"], row.note) == (-10.0, "4 seeds; Δ over seeds 1, 2, 3")
    tested = next(row for row in looked(study)[0] if row.row == "a_heads_1")
    assert (tested.deltas["bleu"], tested.delta_seeds, tested.note) == (-11.0, (1, 2, 3, 4), "4 seeds")


def test_a_reference_with_a_large_spread_is_a_caution(tmp_path: Path) -> None:
    """0.1 among five of 0.001: the pooled sd is √(0.1² / 6) = 0.041."""
    assert "Caution" not in words(seeded(tmp_path / "calm", base=BASE, a_heads_1=WORSE, c_layers_2=LIKE))
    wild = make(tmp_path / "wild", DIGITS, {row: {} for row in ("base", "a", "b", "c", "d", "e")}, (1, 2, 3))
    for place, trial in enumerate(wild.trials):
        spread = 0.1 if trial.row == "base" else 0.001
        train(wild, place, {"test": {"accuracy": 0.5 + spread * (trial.seed - 2), "loss": 0.25, "decode": {}}})
    assert "Caution: the sd of base is 2.4 × the pooled one, and every difference has it." in words(wild)


def test_dunnett_alone_has_its_own_mark(tmp_path: Path) -> None:
    """One row varies so much more than the others that Welch's test shows nothing."""
    study = make(tmp_path / "alone", DIGITS, {row: {} for row in ("base", "a", "b", "c", "d", "e")}, (1, 2, 3))
    for place, trial in enumerate(study.trials):
        middle, spread = (0.7, 0.1) if trial.row == "a" else (0.5, 0.001)
        train(study, place, {"test": {"accuracy": middle + spread * (trial.seed - 2), "loss": 0.25, "decode": {}}})
    rows, findings = looked(study)
    assert "| +0.200† |" in to_markdown(study, rows, findings=findings)
    assert "†: a difference by Dunnett's test alone" in words(study)
    assert lines_of(study)["a"]["test_accuracy"] == "difference shown by Dunnett's test, not by Welch's"


def test_one_seed_is_tested_over_its_samples_only_and_says_what_that_shows(tmp_path: Path) -> None:
    study = reading.make(tmp_path / "reading", {"base": 0.6, "better": 0.95, "like": 0.6}, seeds=(4,))
    rows, findings = looked(study)
    text = to_markdown(study, rows, findings=findings)
    better, like = (next(line for line in text.splitlines() if f"| {name} |" in line) for name in ("better", "like"))
    assert "°" in better
    assert not {"*", "†"} & set(better)
    assert "°" not in like
    assert "°: the row differs from base over the samples of its one seed" in text
    assert "another seed may differ as much" in text
    content = json.loads(to_json(study, rows, findings=findings))
    assert 0 <= content[1]["sample_tests"]["accuracy"]["4"]["p_holm"] < 0.05


def test_the_tests_are_kept_and_made_again_when_a_value_changes(tmp_path: Path) -> None:
    study = seeded(tmp_path / "kept", base=BASE, a_heads_1=WORSE)
    before = lines_of(study)["a_heads_1"]["p_bleu"]
    assert lines_of(study)["a_heads_1"]["p_bleu"] == before
    trial = study.trials[3]
    finish(study, trial, begin(study.trial_folder(trial)), 30, ppl=5.0, bleu=29.0)
    assert lines_of(study)["a_heads_1"]["p_bleu"] != before


def test_rows_that_are_not_alike_are_marked_and_explained(study: Study, tmp_path: Path) -> None:
    study = seeded(tmp_path / "unlike", base=BASE, a_heads_1=WORSE, c_layers_2=LIKE)
    for trial in study.trials:
        cpu = "fast" if trial.row == "a_heads_1" else "slow"
        about = {"commit": "c" * 40, "cpu": {"model": cpu}, "device": "cpu", "versions": {"torch": "2.0"}}
        (study.trial_folder(trial).path / "provenance.json").write_text(json.dumps(about), "utf-8")
    rows, findings = looked(study)
    text = to_markdown(study, rows, findings=findings)
    assert "| a_heads_1‡ |" in text
    assert "| c_layers_2 |" in text
    assert "‡: the row differs from most trials in more than its change: CPU fast, not slow: a_heads_1." in text
    assert lines_of(study)["a_heads_1"]["unlike"].startswith("CPU fast, not slow")
