"""A row keeps its difference at every scale, or is refused by its line."""

from pathlib import Path
from typing import Any

import pytest
from allelse_in_folder import own, own_row, plan
from composed_rows import composed_row, composed_sweep
from scale_table import DOCUMENT, MARKED, scale_table
from scale_table import SCALES as IN_DOCUMENT

from sweeps.config.files import SHIPPED
from sweeps.config.schema import Schema
from sweeps.planning.study_rows.composed_rows import Composition
from sweeps.planning.study_rows.row_words import describe
from sweeps.trees import dotted
from transformer.task import TRANSLATION

SCHEMA = Schema.of(TRANSLATION)
NEVER = {"train.seed", "data.train", "data.dev", "data.test"}
"""Seeds belong to the sweep, and a user's own files need data=files: refused at every scale."""
KEYS = [key for key in SCHEMA.short_names if key not in NEVER]
WORDS: dict[str, Any] = {
    "model.positions": "learned",
    "model.attention_score": "dot",
    "model.encoder_layer": "recurrent",
    "model.kernel": 9,
    "model.attention_window": 9,
    "model.max_positions": 200,  # a batch holds the longest pair
    "train.precision": "fp32",
    "data.name": "multi30k",
    "data.source": "fr",
    "data.target": "fr",
    "data.mirror": "elsewhere",
    "train.longest": 100,
    "train.tokens_per_micro_batch": 700,
    "train.adam_beta1": 0.8,
    "train.adam_beta2": 0.9,
    "data.bleu_tokenizer": "char",
    "train.pictured_sentence": "a sentence",
}


def other_value(key: str, value: Any) -> Any:
    """Another value of the key: twice as much, or another text."""
    if key in WORDS:
        return WORDS[key]
    if isinstance(value, bool):
        return str(not value).lower()
    return value * 2 or (5 if isinstance(value, int) else 0.25)


def values(settings: Any) -> dict[str, Any]:
    tree = settings.to_dict()
    return dotted({group: tree[group] for group in SCHEMA.groups})


def test_a_row_differs_only_in_its_key_at_scale_half(tmp_path: Path) -> None:
    base = values(composed_row(["scale=paper"], tmp_path).base)
    for key in KEYS:
        group, name = key.split(".")
        own_row(
            tmp_path, f"{group}: {{{name}: {other_value(key, base[key])}}}\n", key.replace(".", "_")
        )
    rows = ",".join(key.replace(".", "_") for key in KEYS)
    composition = composed_sweep(["scale=half", f"sweep.rows=[{rows}]"], tmp_path)
    base_values = values(composition.base)
    for key, row in zip(KEYS, composition.rows, strict=True):
        row_values = values(row.settings)
        assert [name for name in row_values if row_values[name] != base_values[name]] == [key]


def composed(folder: Path, body: str, *overrides: str) -> Composition:
    own_row(folder, body)
    return composed_sweep(["sweep.rows=[base,mine]", *overrides], folder)


@pytest.mark.parametrize(
    ("scale", "body", "change"),
    [
        (
            "tiny",
            "train: {warmup_steps: 8000, lr_factor: 2.0}\n",
            "warmup_steps 400, lr_factor 1.0",
        ),
        ("tiny", "train: {lr_factor: 2}\n", "lr_factor 1.0"),
        (
            "tiny",
            "train: {log_every: 50, evaluate_every: 2500}\n",
            "log_every 10, evaluate_every 100",
        ),
        ("half", "train: {tokens_per_batch: 12500}\n", "tokens_per_batch 2000"),
        ("half", "train: {warmup_steps: 1000}\n", "warmup_steps 250"),
        ("half", "train: {precision: fp32}\n", "precision fp32"),
        ("half", "train: {steps: 300000, warmup_steps: 8000}\n", "6K steps, warmup_steps 2000"),
        ("paper", "train: {warmup_steps: 10}\n", "warmup_steps 10"),
    ],
)
def test_a_value_that_a_scale_sets_is_kept_in_proportion_to_base(
    tmp_path: Path, scale: str, body: str, change: str
) -> None:
    composition = composed(tmp_path, body, f"scale={scale}")
    assert describe(composition.rows[1], composition.base) == change


def test_a_user_s_own_scale_may_set_and_divide(tmp_path: Path) -> None:
    scale = "scale: {name: mine, width: 2, depth: 1, steps: 10}\n"
    own(
        tmp_path,
        "scale/mine",
        f"# @package _global_\n{scale}train: {{steps: 1000}}\nmodel: {{d_ff: 512, p_drop: 0.2}}\n",
    )
    body = "train: {steps: 300000}\nmodel: {d_ff: 1024, p_drop: 0.3}\n"
    base, scaled_row = composed(tmp_path, body, "scale=mine").rows
    assert (
        base.settings.config.train.steps,
        base.settings.config.model.d_ff,
        base.settings.config.model.p_drop,
    ) == (
        100,
        256,
        0.2,
    )
    assert (
        scaled_row.settings.config.train.steps,
        scaled_row.settings.config.model.d_ff,
        scaled_row.settings.config.model.p_drop,
    ) == (
        300,
        128,
        0.6,
    )


def test_the_plan_notes_what_became_of_each_difference(tmp_path: Path) -> None:
    own_row(tmp_path, "train: {warmup_steps: 8000, steps: 7}\n")
    notes = plan(tmp_path, "sweep.rows=[base,mine,big]").composition.notes
    assert notes == [
        (
            "Scale tiny sets these, so rows keep them in proportion to base: "
            "mine train.warmup_steps 400."
        ),
        (
            "At scale tiny every row trains for 400 steps; ignored: train.steps of mine, "
            "train.steps of big."
        ),
    ]


def test_the_document_s_table_is_generated() -> None:
    section = MARKED.search(DOCUMENT.read_text("utf-8"))
    assert section is not None
    assert section[0] == scale_table(), "write it again: python tests/shared/scale_table.py"
    assert sorted(IN_DOCUMENT) == sorted(path.stem for path in (SHIPPED / "scale").glob("*.yaml"))
