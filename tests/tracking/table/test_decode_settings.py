"""Scores of rows or seeds with different settings of `decode` are not compared."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tables import by_name, scored, shown

from tracking.statistics.rows import table
from tracking.table.layout import written

BEAM_8 = {"beam": 8}
# a row's settings that are not base's, its differences in PPL and BLEU, and its note
OTHERS: list[tuple[Mapping[str, float], tuple[float | None, float | None], str]] = [
    ({"beam": 8}, (0.0, None), "decode.beam 8, not 4"),
    ({"temperature": 0.5}, (0.0, None), "temperature 0.5, not default"),
    (
        {"average_checkpoints": 5, "alpha": 1.0},  # other weights
        (None, None),
        "decode.alpha 1.0, not 0.6; decode.average_checkpoints 5, not 1",
    ),
]


@pytest.mark.parametrize(("other", "deltas", "note"), OTHERS)
def test_a_row_scored_with_other_settings_has_no_difference_that_they_change(
    tmp_path: Path, other: Mapping[str, float], deltas: tuple[float | None, float | None], note: str
) -> None:
    study = scored(tmp_path / "other", ("base", 1, {}), ("a_heads_1", 1, other), ("c_layers_2", 1, {}))
    base, heads, layers = table(study)
    assert ((heads.deltas["ppl"], heads.deltas["bleu"]), heads.note) == (deltas, note)
    assert (heads.scores["bleu"], base.note, layers.note) == (30.0, "", "")
    about = replace(study, cells={**study.cells, "a_heads_1": dict(other)})
    assert by_name(about)["a_heads_1"].note == "", "the row is about these settings"


def test_a_caption_names_the_settings_and_a_cell_what_is_not_compared(tmp_path: Path) -> None:
    usual = scored(tmp_path / "usual", ("base", 1, {}), ("a_heads_1", 1, {}))
    averaged = scored(tmp_path / "averaged", ("base", 1, {"beam": 8, "average_checkpoints": 5}))
    for text in (written("md", usual, table(usual)), " ".join(shown(usual).split())):
        assert "measured on dev, beam 4, α 0.6, last checkpoint; BLEU: sacreBLEU's 13a" in text
        assert "decode" not in text
    assert "on dev, beam 8, α 0.6, mean of the last 5 checkpoints;" in written("md", averaged, table(averaged))
    study = scored(tmp_path / "beams", ("a_heads_1", 1, {}), ("base", 1, BEAM_8), ("c_layers_2", 1, BEAM_8))
    text = written("md", study, table(study))
    assert "| 4.50 | 30.0 | 0.00 | other settings |" in text
    assert "measured on dev, beam 8," in text
    assert ",0,other settings," in written("csv", study, table(study))
    assert "decode.beam 4, not 8" in shown(study)
    assert json.loads(written("json", study, table(study)))[0]["other_decode"] == ["beam"]


def test_seeds_with_and_without_a_setting_are_mixed(tmp_path: Path) -> None:
    settings = [("base", 1, {}), ("a_heads_1", 1, {}), ("a_heads_1", 2, {"temperature": 0.5})]
    heads = by_name(scored(tmp_path / "mixed", *settings))["a_heads_1"]
    assert (heads.scores, heads.deltas["bleu"]) == ({"ppl": 4.5, "bleu": None}, None)
    assert heads.mixed_decode == ("temperature",)
    assert heads.note == "seeds mix temperature default, 0.5"
