"""Scores of rows or seeds with different settings of `decode` are not compared."""

import json
from dataclasses import replace
from pathlib import Path

from studies_on_disk import make_study
from tables import by_name, scored, shown

from tracking.statistics.rows import table
from tracking.table.layout import written


def test_the_caption_names_the_decode_settings(tmp_path: Path) -> None:
    usual = scored(tmp_path / "usual", ("base", 1, {}), ("a_heads_1", 1, {}))
    averaged = scored(tmp_path / "averaged", ("base", 1, {"beam": 8, "average_checkpoints": 5}))
    for text in (written("md", usual, table(usual)), " ".join(shown(usual).split())):
        assert "measured on dev, beam 4, α 0.6, last checkpoint; BLEU: sacreBLEU's 13a" in text
        assert "decode" not in text
    assert "on dev, beam 8, α 0.6, mean of the last 5 checkpoints;" in written("md", averaged, table(averaged))
    empty = make_study(tmp_path / "empty", {"base": [1]})
    assert "on dev; " in written("md", empty, table(empty))


def test_base_scored_again_with_another_beam_leaves_other_rows_without_a_bleu_difference(tmp_path: Path) -> None:
    study = scored(tmp_path / "beams", ("a_heads_1", 1, {}), ("base", 1, {"beam": 8}), ("c_layers_2", 1, {"beam": 8}))
    rows = by_name(study)
    heads, layers = rows["a_heads_1"], rows["c_layers_2"]
    assert (heads.scores["bleu"], heads.deltas["ppl"], heads.deltas["bleu"]) == (30.0, 0.0, None)
    assert heads.note == "decode.beam 4, not 8"
    assert (layers.deltas["bleu"], layers.note, rows["base"].note) == (0.0, "", "")
    text = written("md", study, table(study))
    assert "| 4.50 | 30.0 | 0.00 | other settings |" in text
    assert "measured on dev, beam 8," in text
    assert ",0,other settings," in written("csv", study, table(study))
    assert "decode.beam 4, not 8" in shown(study)
    assert json.loads(written("json", study, table(study)))[0]["other_decode"] == ["beam"]


def test_a_row_about_decoding_is_compared_with_base(tmp_path: Path) -> None:
    study = scored(tmp_path / "about", ("base", 1, {}), ("a_heads_1", 1, {"beam": 8}))
    study = replace(study, cells={**study.cells, "a_heads_1": {"beam": 8}})
    heads = by_name(study)["a_heads_1"]
    assert (heads.deltas["bleu"], heads.note, heads.other_decode) == (0.0, "", ())


def test_averaged_checkpoints_are_other_weights_so_perplexity_has_no_difference(tmp_path: Path) -> None:
    study = scored(tmp_path / "average", ("base", 1, {}), ("a_heads_1", 1, {"average_checkpoints": 5, "alpha": 1.0}))
    heads = by_name(study)["a_heads_1"]
    assert (heads.scores["ppl"], heads.deltas["ppl"], heads.deltas["bleu"]) == (4.5, None, None)
    assert heads.note == "decode.alpha 1.0, not 0.6; decode.average_checkpoints 5, not 1"


def test_a_setting_that_base_leaves_out_is_another_setting(tmp_path: Path) -> None:
    warm = {"temperature": 0.5}
    study = scored(tmp_path / "warm", ("base", 1, {}), ("a_heads_1", 1, warm), ("c_layers_2", 1, {}))
    rows = by_name(study)
    heads = rows["a_heads_1"]
    assert (heads.deltas["ppl"], heads.deltas["bleu"], heads.other_decode) == (0.0, None, ("temperature",))
    assert heads.note == "temperature 0.5, not default"
    assert (rows["base"].note, rows["c_layers_2"].note) == ("", "")
    text = written("md", study, [*rows.values()])
    assert "| 4.50 | 30.0 | 0.00 | other settings |" in text
    assert "measured on dev, beam 4, α 0.6, last checkpoint;" in text


def test_seeds_with_and_without_a_setting_are_mixed(tmp_path: Path) -> None:
    settings = [("base", 1, {}), ("a_heads_1", 1, {}), ("a_heads_1", 2, {"temperature": 0.5})]
    heads = by_name(scored(tmp_path / "mixed", *settings))["a_heads_1"]
    assert (heads.scores, heads.deltas["bleu"]) == ({"ppl": 4.5, "bleu": None}, None)
    assert heads.mixed_decode == ("temperature",)
    assert heads.note == "seeds mix temperature default, 0.5"
