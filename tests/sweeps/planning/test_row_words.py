"""A row's own words are shown where scaling leaves its values; elsewhere the scaled values, and
what the name means."""

import json
from pathlib import Path

import pytest
from allelse_in_folder import own, own_row
from composed_rows import composed_sweep
from finished_trials import study_in, sweep
from typed import typed

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.study_rows.row_words import shown_change

# a row's own words, its body, what is shown, and its change before scaling
WORDS = {
    "tiny": [
        ("twice the heads", "model: {n_heads: 16}", "twice the heads", ""),
        ("narrow heads", "model: {d_k: 16, d_v: 16}", "d_k = d_v = 2", "narrow heads"),
        ("", "model: {d_k: 16, d_v: 16}", "d_k = d_v = 2", "d_k = d_v = 16"),
        ("", "model: {n_heads: 16}", "h 16", ""),
        ("6 layers, 16 heads", "model: {n_layers: 6, n_heads: 16}", "h 16", "6 layers, 16 heads"),
        ("long warm-up", "train: {warmup_steps: 8000}", "warmup_steps 400", "long warm-up"),
        ("long", "train: {steps: 200000}\nmodel: {n_heads: 16}", "h 16", "long"),
        ("two\nlines \u00a0 and\u0007", "model: {n_heads: 16}", "two lines and", ""),
        ("[bold]16[/bold]", "model: {n_heads: 16}", "[bold]16[/bold]", ""),
        ("large text", "data: {vocab_size: 900}", "large text", ""),
    ],
    "paper": [("narrow heads", "model: {d_k: 16, d_v: 16}", "narrow heads", "")],
    "half": [("other words", "train: {precision: fp32}", "other words", "")],
}


@pytest.mark.parametrize("scale", WORDS)
def test_own_words_are_shown_unless_scaling_touches_a_key(tmp_path: Path, scale: str) -> None:
    names = [f"mine_{number}" for number, _ in enumerate(WORDS[scale])]
    for name, (change, body, _, _) in zip(names, WORDS[scale], strict=True):
        header = (
            f"row: {{group: F, change: {json.dumps(change)}}}\n" if change else "row: {group: F}\n"
        )
        own(tmp_path, f"row/{name}", f"# @package _global_\n{header}{body}\n")
    composition = composed_sweep(
        [f"sweep.rows=[base,{','.join(names)}]", f"scale={scale}"], tmp_path
    )
    descriptions = [
        (shown_change(row, composition.base), row.before_scaling) for row in composition.rows[1:]
    ]
    assert descriptions == [(text, unscaled) for _, _, text, unscaled in WORDS[scale]]


def test_plan_and_table_explain_the_names(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    rows = "sweep.rows=[base,c_layers_2,b_key_16,d_dropout_0]"
    sweep(tmp_path, rows, "train.steps=200", ends=1)
    note = "At full size: c_layers_2 = N 2; b_key_16 = d_k 16."
    assert note in " ".join(typed(tmp_path, "plan", "sweep.name=other", rows).output.split())
    for words in ([], ["--set", "test"]):
        shown_table = " ".join(typed(tmp_path, "table", *words).output.split())
        assert "At full size: b_key_16 = d_k 16; c_layers_2 = N 2." in shown_table
    lines = json.loads(typed(tmp_path, "table", "--format", "json").stdout)
    unscaled = {line["row"]: line["before_scaling"] for line in lines}
    assert unscaled == {"base": "", "b_key_16": "d_k 16", "c_layers_2": "N 2", "d_dropout_0": ""}


def test_words_stay_when_the_row_s_file_is_gone(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    files = [
        own_row(tmp_path, "model: {d_k: 16}\n", "narrow"),
        own_row(tmp_path, "model: {n_heads: 16}\n", "heads"),
    ]
    sweep(tmp_path, "sweep.rows=[base,narrow,heads]", "train.steps=200", ends=1)
    study = study_in(tmp_path)
    assert [(trial.row, trial.change) for trial in study.trials[1:]] == [
        ("narrow", "d_k 2"),
        ("heads", "mine"),
    ]
    for file in files:
        file.unlink()
    recorded_plan = plan_sweep([], here=tmp_path)
    assert [planned.trial for planned in recorded_plan.trials] == list(study.trials)
    assert recorded_plan.composition.names({"narrow", "heads"}) == ["At full size: narrow = mine."]
