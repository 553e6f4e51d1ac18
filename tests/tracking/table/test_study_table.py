"""Means, differences and states of a study's rows, and the formats that print them."""

import csv
import io
import json
import math
from pathlib import Path

import pytest
from studies_on_disk import begin, finish, make_study
from tables import by_name

from tracking.statistics.rows import table
from tracking.study import Study
from tracking.table.layout import written

HEADER = "row,group,change,seeds,steps,ppl,bleu,params,flops,paper_ppl,paper_bleu,paper_params_m"


@pytest.fixture
def mixed(tmp_path: Path) -> Study:
    """base: seeds 1 and 2 of 2; a_heads_1: 3 of 3 and 4, the other failed; c_layers_2: not begun."""
    study = make_study(tmp_path / "mixed", {"base": [1, 2], "a_heads_1": [3, 4], "c_layers_2": [1]})
    for trial, ppl, bleu in zip(study.trials, (4.0, 5.0, 6.0), (30.0, 32.0, 28.0), strict=False):
        finish(study, trial, begin(study.trial_folder(trial)), 30, ppl=ppl, bleu=bleu)
    failed = study.trial_folder(study.trials[3])
    failed.attempts.end(begin(failed), "failed")
    failed.write_error("CUDA out of memory | 3 GiB\nTraceback ...")
    return study


def test_means_and_differences_are_over_finished_seeds_of_both(mixed: Study) -> None:
    rows = by_name(mixed)
    base, heads = rows["base"], rows["a_heads_1"]
    assert (base.seeds, base.asked, base.scores["bleu"], base.note) == (2, 2, 31.0, "")
    assert base.scores["ppl"] == pytest.approx(math.sqrt(20)), "e^ of the mean NLL"
    assert base.sd == {"ppl": pytest.approx(math.sqrt(0.5)), "bleu": pytest.approx(math.sqrt(2))}
    assert (heads.sd, heads.seed_values["ppl"]) == ({"ppl": None, "bleu": None}, {3: 6.0})
    assert (base.steps, base.params, base.seconds) == (30, 63_045_632, 3700.0)
    assert (base.deltas["ppl"], base.deltas["bleu"]) == (0.0, 0.0)
    assert (heads.seeds, heads.asked, heads.deltas["bleu"]) == (1, 2, -3.0), "no seed needs to be in common"
    assert heads.deltas["ppl"] == pytest.approx(6 - math.sqrt(20)), "from the mean over all seeds of base"
    assert heads.published_deltas == {"ppl": 0.37, "bleu": -0.9}
    assert heads.note == "1 of 2 seeds; s4 FAILED: CUDA out of memory | 3 GiB"
    assert "Δ: difference from base, between means over all seeds of both" in written("md", mixed, table(mixed))


def test_running_interrupted_and_failed_rows_are_marked(study: Study) -> None:
    folders = [study.trial_folder(trial) for trial in study.trials]
    begin(folders[0])
    folders[1].attempts.end(begin(folders[1]), "interrupted")
    folders[2].attempts.end(begin(folders[2]), "failed")
    folders[2].write_error("ValueError: no")
    assert [row.note for row in table(study)] == ["running", "interrupted", "FAILED: ValueError: no"]


def test_a_result_of_another_key_does_not_count(study: Study) -> None:
    other = study.trials[1]
    study.trial_folder(study.trials[0]).write_result({"key": other.key, "step": 1, "scores": {}})
    assert table(study)[0].seeds == 0


def test_a_score_that_is_not_finite_is_not_left_out_of_the_mean(tmp_path: Path) -> None:
    study = make_study(tmp_path / "diverged", {"base": [1, 2]})
    for trial, ppl in zip(study.trials, (4.0, float("inf")), strict=True):
        finish(study, trial, begin(study.trial_folder(trial)), 30, ppl=ppl)
    (row,) = table(study)
    assert (row.seeds, row.scores["ppl"], row.scores["bleu"]) == (2, None, 30.0)
    assert "not finite" in written("md", study, [row])


def test_csv_starts_with_the_contract_and_json_has_the_same_numbers(mixed: Study) -> None:
    text = written("csv", mixed, table(mixed))
    assert text.startswith(HEADER + ",")
    base, heads, layers = csv.DictReader(io.StringIO(text))
    assert (base["steps"], base["params"], base["bleu"]) == ("30", "63045632", "31")
    assert [base[f"ppl_s{seed}"] for seed in (1, 2)] == ["4", "5"]
    assert (heads["ppl_s3"], heads["ppl_s1"], heads["sd_ppl"], heads["paper_params_m"]) == ("6", "", "", "")
    assert {layers[name] for name in ("steps", "ppl", "params", "flops", "seconds", "delta_ppl")} == {"missing"}
    rows = json.loads(written("json", mixed, table(mixed)))
    assert [row["bleu"] for row in rows] == [31.0, 28.0, None]
    assert rows[0]["seed_values"] == {"ppl": {"1": 4.0, "2": 5.0}, "bleu": {"1": 30.0, "2": 32.0}}
    assert (rows[0]["sd_bleu"], rows[1]["sd_bleu"]) == (pytest.approx(math.sqrt(2)), None)
    assert rows[1]["cells"] == {"n_heads": 1, "d_k": 512, "d_v": 512}


def test_markdown_is_the_table_of_the_paper(mixed: Study) -> None:
    lines = written("md", mixed, table(mixed)).splitlines()
    cells = [[cell.strip() for cell in line.replace("\\|", "/").split("|")[1:-1]] for line in lines[:5]]
    head, _, base, heads, layers = cells
    assert "|".join(head[:12]) == "|row|N|d_model|d_ff|h|d_k|d_v|P_drop|ε_ls|steps|other"
    assert {len(line) for line in cells} == {len(head)}
    assert base[:12] == ["base", "base", "6", "512", "2048", "8", "64", "64", "0.1", "0.1", "30", ""]
    assert heads[2:12] == ["", "", "", "1", "512", "512", "", "", "", ""]
    assert heads[12:19] == ["6.00", "28.0", "+1.53", "−3.0", "63.046M", "9.52e17", "1 h 01 min"]
    assert heads[19:24] == ["5.29", "24.9", "", "+0.37", "−0.9"]
    assert layers[11:19] == ["attention_dropout 0.1", *["missing"] * 7]
    assert "measured on dev" in lines[-1]
    assert "differences not tested" in lines[-1]
