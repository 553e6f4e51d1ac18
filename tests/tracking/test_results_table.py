import csv
import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from studies_on_disk import begin, finish, make_study
from tables import by_name, shown

from tracking import formats
from tracking.study import Study, Trial
from tracking.table import table, to_csv, to_json, to_markdown
from tracking.trial_folder import TrialFolder

HEADER = "row,group,change,seeds,steps,ppl,bleu,params,flops,paper_ppl,paper_bleu,paper_params_m"


@pytest.fixture
def mixed(tmp_path: Path) -> Study:
    """base: 2 of 2 seeds; a_heads_1: 1 of 2, the other failed; c_layers_2: not begun."""
    study = make_study(tmp_path / "mixed", {"base": [1, 2], "a_heads_1": [1, 2], "c_layers_2": [1]})
    for trial, ppl, bleu in zip(study.trials, (4.0, 5.0, 6.0), (30.0, 32.0, 28.0), strict=False):
        finish(study, trial, begin(study.trial_folder(trial)), 30, ppl=ppl, bleu=bleu)
    failed = study.trial_folder(study.trials[3])
    failed.end_attempt(begin(failed), "failed")
    failed.write_error("CUDA out of memory | 3 GiB\nTraceback ...")
    return study


@pytest.mark.parametrize(("width", "left_out"), [(80, "params, FLOPs, time"), (100, "FLOPs, time"), (116, "")])
def test_a_narrow_terminal_gets_fewer_columns_and_whole_numbers(mixed: Study, width: int, left_out: str) -> None:
    text = shown(mixed, width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    named = re.search(r"A wider terminal also shows ([^.]+)\.", " ".join(text.split()))
    assert (named[1] if named else "") == left_out
    assert ("63.046M" in text) == ("params" not in left_out)


def test_means_and_differences_are_over_finished_seeds(mixed: Study) -> None:
    rows = by_name(mixed)
    base, heads = rows["base"], rows["a_heads_1"]
    assert (base.seeds, base.asked, base.scores["bleu"], base.note) == (2, 2, 31.0, "")
    assert base.scores["ppl"] == pytest.approx(math.sqrt(20)), "e^ of the mean NLL"
    assert base.sd == {"ppl": pytest.approx(math.sqrt(0.5)), "bleu": pytest.approx(math.sqrt(2))}
    assert (heads.sd, heads.seed_values["ppl"]) == ({"ppl": None, "bleu": None}, {1: 6.0})
    assert (base.steps, base.params, base.seconds) == (30, 63_045_632, 3700.0)
    assert (base.deltas["ppl"], base.deltas["bleu"]) == (0.0, 0.0)
    assert (heads.seeds, heads.asked, heads.deltas["ppl"], heads.deltas["bleu"]) == (1, 2, 2.0, -2.0)
    assert (base.delta_seeds, heads.delta_seeds) == ((1, 2), (1,))
    assert heads.published_deltas["ppl"] == 0.37
    assert heads.published_deltas["bleu"] == -0.9
    assert heads.note == "1 of 2 seeds; s2 FAILED: CUDA out of memory | 3 GiB; Δ over seed 1"


def pairs(folder: Path, **figures: dict[int, float]) -> Study:
    """A finished study with the PPL of each row by seed; BLEU is ten times the PPL."""
    study = make_study(folder, {row: list(by_seed) for row, by_seed in figures.items()})
    for trial in study.trials:
        ppl = figures[trial.row][trial.seed]
        finish(study, trial, begin(study.trial_folder(trial)), 30, ppl=ppl, bleu=10 * ppl)
    return study


def test_a_difference_is_over_the_seeds_that_both_have_and_names_them(tmp_path: Path) -> None:
    study = pairs(tmp_path / "pairs", base={1: 4.0}, a_heads_1={1: 4.5, 2: 9.5}, c_layers_2={1: 3.0})
    heads, layers = by_name(study)["a_heads_1"], by_name(study)["c_layers_2"]
    assert (heads.scores["bleu"], heads.seeds, heads.deltas["ppl"], heads.deltas["bleu"]) == (70.0, 2, 0.5, 5.0)
    assert (heads.delta_seeds, heads.note) == ((1,), "2 seeds; Δ over seed 1")
    assert (layers.deltas["ppl"], layers.delta_seeds, layers.note) == (-1.0, (1,), "")
    for text in (shown(study), to_markdown(study, table(study))):
        words = " ".join(text.split())
        assert "2 seeds; Δ over seed 1" in words
        assert "Seeds per row: 1 to 2. Δ is over the seeds that a row shares with base." in words
    lines = list(csv.DictReader(io.StringIO(to_csv(study, table(study)))))
    assert [(line["seeds"], line["delta_seeds"]) for line in lines] == [("1", "1"), ("2", "1"), ("1", "1")]
    assert json.loads(to_json(study, table(study)))[1]["delta_seeds"] == [1]


def test_several_seeds_in_common_are_listed_and_base_may_have_more(tmp_path: Path) -> None:
    study = pairs(tmp_path / "more", base={1: 4.0, 2: 6.0, 3: 80.0}, a_heads_1={2: 6.5, 1: 4.5})
    heads = by_name(study)["a_heads_1"]
    assert (heads.deltas["bleu"], heads.delta_seeds, heads.note) == (5.0, (1, 2), "2 seeds; Δ over seeds 1, 2")
    assert heads.deltas["ppl"] == pytest.approx(math.sqrt(6.5 * 4.5) - math.sqrt(4.0 * 6.0))


def test_without_a_seed_in_common_there_is_no_difference(tmp_path: Path) -> None:
    study = pairs(tmp_path / "none", base={1: 4.0}, a_heads_1={2: 4.5})
    heads = by_name(study)["a_heads_1"]
    assert (heads.scores["ppl"], heads.deltas["ppl"], heads.deltas["bleu"], heads.delta_seeds) == (4.5, None, None, ())
    assert heads.note == "1 seed; no seed in common with base (1)"
    assert "| 4.50 | 45.0 | no seed in common | no seed in common |" in to_markdown(study, table(study))
    assert ",no seed in common," in to_csv(study, table(study))
    assert "no seed in common with base (1)" in " ".join(shown(study).split())


def test_a_missing_row_is_marked(mixed: Study) -> None:
    row = by_name(mixed)["c_layers_2"]
    assert (row.seeds, row.scores["ppl"], row.deltas["ppl"], row.note) == (0, None, None, "missing")
    assert row.published["ppl"] == 6.11


def test_running_interrupted_and_failed_rows_are_marked(study: Study) -> None:
    folders = [study.trial_folder(trial) for trial in study.trials]
    begin(folders[0])
    folders[1].end_attempt(begin(folders[1]), "interrupted")
    folders[2].end_attempt(begin(folders[2]), "failed")
    folders[2].write_error("ValueError: no")
    assert [row.note for row in table(study)] == ["running", "interrupted", "FAILED: ValueError: no"]


def test_a_result_of_another_key_does_not_count(study: Study) -> None:
    other = study.trials[1]
    study.trial_folder(study.trials[0]).write_result({"key": other.key, "step": 1, "scores": {}})
    assert table(study)[0].seeds == 0


@dataclass(frozen=True)
class Finishing(Study):
    """Its first trial finishes right after a reader has found no result."""

    def trial_folder(self, trial: Trial) -> TrialFolder:
        folder = super().trial_folder(trial)
        if trial == self.trials[0]:
            return Late(folder.path, lambda: finish(self, trial, begin(folder), 30))
        return folder


class Late(TrialFolder):
    def __init__(self, path: Path, finish: Callable[[], None]) -> None:
        super().__init__(path)
        self.finish = finish

    def result(self) -> dict[str, Any] | None:
        found = super().result()
        if found is None:
            self.finish()
        return found


@pytest.mark.parametrize(("seeds", "note"), [([1], "interrupted"), ([1, 2], "interrupted; missing")])
def test_a_trial_that_finishes_during_the_read_is_shown_as_it_was_read(
    tmp_path: Path, seeds: list[int], note: str
) -> None:
    study = make_study(tmp_path / "late", {"base": seeds})
    (row,) = table(Finishing(**vars(study)))
    assert (row.seeds, row.scores["ppl"], row.note) == (0, None, note)
    assert row.status
    assert table(study)[0].seeds == 1


def test_a_diverged_seed_is_not_left_out_of_the_mean(tmp_path: Path) -> None:
    study = make_study(tmp_path / "diverged", {"base": [1, 2]})
    for trial, ppl in zip(study.trials, (4.0, float("inf")), strict=True):
        finish(study, trial, begin(study.trial_folder(trial)), 30, ppl=ppl)
    (row,) = table(study)
    assert (row.seeds, row.scores["ppl"], row.scores["bleu"]) == (2, None, 30.0)
    assert "not finite" in to_markdown(study, [row])


def test_csv_starts_with_the_contract_and_leaves_none_of_our_numbers_blank(mixed: Study) -> None:
    text = to_csv(mixed, table(mixed))
    assert text.startswith(HEADER + ",")
    lines = list(csv.DictReader(io.StringIO(text)))
    base, heads, layers = lines
    assert (base["steps"], base["params"], base["bleu"]) == ("30", "63045632", "31")
    assert [base[f"ppl_s{seed}"] for seed in (1, 2)] == ["4.0", "5.0"]
    assert (heads["ppl_s1"], heads["ppl_s2"], heads["sd_ppl"]) == ("6.0", "", "")
    assert heads["paper_params_m"] == ""
    assert heads["note"].startswith("1 of 2 seeds")
    for name in ("steps", "ppl", "bleu", "params", "flops", "seconds", "delta_ppl", "delta_bleu"):
        assert layers[name] == "missing"


def test_a_difference_without_a_base_is_marked(tmp_path: Path) -> None:
    study = make_study(tmp_path / "no-base", {"a_heads_1": [1]})
    finish(study, study.trials[0], begin(study.trial_folder(study.trials[0])), 30)
    (line,) = csv.DictReader(io.StringIO(to_csv(study, table(study))))
    assert (line["ppl"], line["delta_ppl"], line["paper_delta_ppl"]) == ("4.5", "no base", "")


def test_json_has_the_same_numbers(mixed: Study) -> None:
    rows = json.loads(to_json(mixed, table(mixed)))
    assert [row["bleu"] for row in rows] == [31.0, 28.0, None]
    assert rows[0]["seed_values"] == {"ppl": {"1": 4.0, "2": 5.0}, "bleu": {"1": 30.0, "2": 32.0}}
    assert (rows[0]["sd_bleu"], rows[1]["sd_bleu"]) == (pytest.approx(math.sqrt(2)), None)
    assert rows[1]["cells"] == {"n_heads": 1, "d_k": 512, "d_v": 512}


def test_markdown_is_the_table_of_the_paper(mixed: Study) -> None:
    lines = to_markdown(mixed, table(mixed)).splitlines()
    cells = [[cell.strip() for cell in line.replace("\\|", "/").split("|")[1:-1]] for line in lines[:5]]
    head, _, base, heads, layers = cells
    assert "|".join(head[:12]) == "|row|N|d_model|d_ff|h|d_k|d_v|P_drop|ε_ls|steps|other"
    assert {len(line) for line in cells} == {len(head)}
    assert base[:12] == ["base", "base", "6", "512", "2048", "8", "64", "64", "0.1", "0.1", "30", ""]
    assert heads[2:12] == ["", "", "", "1", "512", "512", "", "", "", ""]
    assert heads[12:16] == ["6.00", "28.0", "+2.00", "−2.0"]
    assert heads[16:19] == ["63.046M", "9.52e17", "1 h 01 min"]
    assert heads[19:24] == ["5.29", "24.9", "", "+0.37", "−0.9"]
    assert layers[11] == "attention_dropout 0.1"
    assert layers[12:19] == ["missing"] * 7
    assert "measured on dev" in lines[-1]
    assert "differences not tested" in lines[-1]


def test_learned_positions_are_a_note_in_words(tmp_path: Path) -> None:
    study = make_study(tmp_path / "positions", {"a_heads_1": [1]})
    study.cells["a_heads_1"] = {"positions": "learned"}
    try:
        assert "| learned positional embedding |" in to_markdown(study, table(study))
    finally:
        study.cells["a_heads_1"] = {"n_heads": 1, "d_k": 512, "d_v": 512}


def test_the_terminal_table_fits_120_columns_and_shows_causes(mixed: Study) -> None:
    text = shown(mixed)
    assert max(len(line) for line in text.splitlines()) <= 120
    for part in ("4.47±0.71", "31.0±1.4", "+2.00", "−2.0", "63.046M", "9.52e17", "missing", "FAILED:", "1 h 01 min"):
        assert part in text
    assert "…" not in text, "a cell was cut"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(12.34, "12.3 s"), (245, "4 min 05 s"), (12_000, "3 h 20 min"), (302_400, "3 d 12 h"), (None, "")],
)
def test_times(seconds: float | None, text: str) -> None:
    assert formats.time(seconds) == text


def test_a_difference_that_rounds_to_nothing_has_no_sign() -> None:
    assert formats.signed(-0.001, 2) == "0.00"
    assert formats.signed(-0.1, 1) == "−0.1"


def test_parameters_keep_three_decimals_for_small_models() -> None:
    counts = (63_045_632, 100_000, 99_999, 4810, 0, None)
    assert [formats.parameters(count) for count in counts] == ["63.046M", "0.100M", "99.999K", "4.810K", "0", ""]
