"""A row's own words are shown where scaling leaves its values; elsewhere the scaled values, and what the name means."""

import json
from pathlib import Path

import pytest
from allelse_in_folder import own_row
from finished_trials import study_in, sweep
from typed import typed

from sweeps.planning.compose import compose_sweep
from sweeps.planning.composition import ComposedRow, shown_change
from sweeps.planning.continuation import plan_sweep
from tracking.statistics.rows import table
from tracking.table.layout import written

HEAD = "# @package _global_\n"


def mine(folder: Path, change: str, body: str, *overrides: str) -> tuple[ComposedRow, str]:
    """A row of one's own with these words, and what is shown as its change."""
    path = own_row(folder, body)
    about = f"row: {{group: F, change: {json.dumps(change)}}}\n" if change else "row: {group: F}\n"
    path.write_text(HEAD + about + body, "utf-8")
    found = compose_sweep(["sweep.rows=[base,mine]", *overrides], folder)
    return found.rows[1], shown_change(found.rows[1], found.base)


@pytest.mark.parametrize(
    ("scale", "change", "body", "shown", "unscaled"),
    [
        ("tiny", "twice the heads", "model: {n_heads: 16}", "twice the heads", ""),
        ("paper", "narrow heads", "model: {d_k: 16, d_v: 16}", "narrow heads", ""),
        ("tiny", "narrow heads", "model: {d_k: 16, d_v: 16}", "d_k = d_v = 2", "narrow heads"),
        ("tiny", "", "model: {d_k: 16, d_v: 16}", "d_k = d_v = 2", "d_k = d_v = 16"),
        ("tiny", "", "model: {n_heads: 16}", "h 16", ""),
        ("tiny", "6 layers, 16 heads", "model: {n_layers: 6, n_heads: 16}", "h 16", "6 layers, 16 heads"),
        ("tiny", "long warm-up", "train: {warmup_steps: 8000}", "warmup_steps 400", "long warm-up"),
        ("tiny", "long", "train: {steps: 200000}\nmodel: {n_heads: 16}", "h 16", "long"),
        ("half", "other words", "train: {precision: fp32}", "other words", ""),
        ("tiny", "two\nlines \u00a0 and\u0007", "model: {n_heads: 16}", "two lines and", ""),
        ("tiny", "[bold]16[/bold]", "model: {n_heads: 16}", "[bold]16[/bold]", ""),
        ("tiny", "large text", "data: {vocab_size: 900}", "large text", ""),
    ],
)
def test_own_words_are_shown_unless_scaling_touches_a_key(
    tmp_path: Path, scale: str, change: str, body: str, shown: str, unscaled: str
) -> None:
    row, text = mine(tmp_path, change, f"{body}\n", f"scale={scale}")
    assert (text, row.before_scaling) == (shown, unscaled)


def test_plan_and_table_explain_the_names(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    rows = "sweep.rows=[base,c_layers_2,b_key_16,d_dropout_0]"
    line = "At the paper's size b_key_16 is d_k 16; c_layers_2 is N 2."
    note = "At the paper's size c_layers_2 is N 2; b_key_16 is d_k 16."
    sweep(tmp_path, rows, "train.steps=200", ends=1)
    assert note in " ".join(typed(tmp_path, "plan", "sweep.name=other", rows).output.split())
    study = study_in(tmp_path)
    assert line in written("md", study, table(study))
    assert line in " ".join(typed(tmp_path, "table").output.split())
    shown = {row["row"]: row["before_scaling"] for row in json.loads(written("json", study, table(study)))}
    assert shown == {"base": "", "b_key_16": "d_k 16", "c_layers_2": "N 2", "d_dropout_0": ""}
    assert "At the paper's size" not in " ".join(typed(tmp_path, "plan", rows, "scale=paper").output.split())


def test_words_stay_when_the_row_s_file_is_gone(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    for name, body in (("narrow", "model: {d_k: 16}"), ("heads", "model: {n_heads: 16}")):
        own_row(tmp_path, f"{body}\n", name)
    sweep(tmp_path, "sweep.rows=[base,narrow,heads]", "train.steps=200", ends=1)
    before = study_in(tmp_path)
    assert [(trial.row, trial.change) for trial in before.trials[1:]] == [("narrow", "d_k 2"), ("heads", "mine")]
    for name in ("narrow", "heads"):
        (tmp_path / "conf" / "row" / f"{name}.yaml").unlink()
    again = plan_sweep([], here=tmp_path)
    assert [planned.trial for planned in again.trials] == list(before.trials)
    assert again.composition.names({"narrow", "heads"}) == ["At the paper's size narrow is mine."]
    assert again.composition.names({"heads"}) == []
