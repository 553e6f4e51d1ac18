"""The rows are the paper's: Table 3 and section 5 stand here in full, so that no file can drift
unseen."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from composed_rows import ROWS, SCALES, composed, composed_sweep, study
from torch.utils.flop_counter import FlopCounterMode
from translation_key import trial_key

from sweeps.config.files import SHIPPED
from sweeps.planning.study_rows.row_words import describe
from transformer.cost import Lengths, forward_flops, parameters, training_flops
from transformer.model.encoder_decoder import Transformer
from transformer.training.loss import summed_loss
from transformer.training.precision import autocast

MODEL = {
    "n_layers": 6,
    "d_model": 512,
    "d_ff": 2048,
    "n_heads": 8,
    "d_k": 64,
    "d_v": 64,
    "p_drop": 0.1,
    "positions": "sinusoids",
    "max_positions": 512,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
}
LATER = {
    "attention_score": "scaled",
    "encoder_layer": "attention",
    "kernel": 7,
    "dilation": 1,
    "attention_window": None,
}
"""Keys of the model that were added later, with the values that keep it as it was."""
DECIDING = {
    "steps": 100_000,
    "warmup_steps": 4000,
    "lr_factor": 1.0,
    "tokens_per_batch": 25_000,
    "label_smoothing": 0.1,
    "precision": "bf16",
}
ADAM = {"adam_beta1": 0.9, "adam_beta2": 0.98, "adam_epsilon": 1e-9}
LIMIT = {"longest": None}
OBSERVING: dict[str, int | str | None] = {
    "log_every": 100,
    "evaluate_every": 5000,
    "checkpoint_every": 1000,
    "keep_checkpoints": 5,
}
OBSERVING |= {"score_every": 0, "tokens_per_micro_batch": None, "pictured_sentence": None}
DECODE = {"beam": 4, "alpha": 0.6, "max_extra": 50, "average_checkpoints": 1, "average_every": 1000}
DECODE |= {"train_sample": False}

# row: group, what the paper prints, PPL, BLEU, parameters in millions, and the change as described
# from the values
TABLE_3: dict[str, tuple[str, dict[str, Any], float, float, float | None, str]] = {
    "base": (
        "base",
        {},
        4.92,
        25.8,
        65,
        "N 6, d_model 512, d_ff 2048, h 8, d_k = d_v = 64, P_drop 0.1, ε_ls 0.1, 100K steps",
    ),
    "a_heads_1": (
        "A",
        {"n_heads": 1, "d_k": 512, "d_v": 512},
        5.29,
        24.9,
        None,
        "h 1, d_k = d_v = 512",
    ),
    "a_heads_4": (
        "A",
        {"n_heads": 4, "d_k": 128, "d_v": 128},
        5.00,
        25.5,
        None,
        "h 4, d_k = d_v = 128",
    ),
    "a_heads_16": (
        "A",
        {"n_heads": 16, "d_k": 32, "d_v": 32},
        4.91,
        25.8,
        None,
        "h 16, d_k = d_v = 32",
    ),
    "a_heads_32": (
        "A",
        {"n_heads": 32, "d_k": 16, "d_v": 16},
        5.01,
        25.4,
        None,
        "h 32, d_k = d_v = 16",
    ),
    "b_key_16": ("B", {"d_k": 16}, 5.16, 25.1, 58, "d_k 16"),
    "b_key_32": ("B", {"d_k": 32}, 5.01, 25.4, 60, "d_k 32"),
    "c_layers_2": ("C", {"n_layers": 2}, 6.11, 23.7, 36, "N 2"),
    "c_layers_4": ("C", {"n_layers": 4}, 5.19, 25.3, 50, "N 4"),
    "c_layers_8": ("C", {"n_layers": 8}, 4.88, 25.5, 80, "N 8"),
    "c_width_256": (
        "C",
        {"d_model": 256, "d_k": 32, "d_v": 32},
        5.75,
        24.5,
        28,
        "d_model 256, d_k = d_v = 32",
    ),
    "c_width_1024": (
        "C",
        {"d_model": 1024, "d_k": 128, "d_v": 128},
        4.66,
        26.0,
        168,
        "d_model 1024, d_k = d_v = 128",
    ),
    "c_ff_1024": ("C", {"d_ff": 1024}, 5.12, 25.4, 53, "d_ff 1024"),
    "c_ff_4096": ("C", {"d_ff": 4096}, 4.75, 26.2, 90, "d_ff 4096"),
    "d_dropout_0": ("D", {"p_drop": 0.0}, 5.77, 24.6, None, "P_drop 0.0"),
    "d_dropout_20": ("D", {"p_drop": 0.2}, 4.95, 25.5, None, "P_drop 0.2"),
    "d_smoothing_0": ("D", {"label_smoothing": 0.0}, 4.67, 25.3, None, "ε_ls 0.0"),
    "d_smoothing_20": ("D", {"label_smoothing": 0.2}, 5.47, 25.7, None, "ε_ls 0.2"),
    "e_learned_positions": (
        "E",
        {"positions": "learned"},
        4.92,
        25.7,
        None,
        "learned positional embedding instead of sinusoids",
    ),
    "big": (
        "big",
        {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "p_drop": 0.3, "steps": 300_000},
        4.33,
        26.4,
        213,
        "d_model 1024, d_ff 4096, h 16, P_drop 0.3, 300K steps",
    ),
}
# one length per side: no padding, which the counter of FLOPs would count too
SENTENCES = 2
SOURCE = 7
TARGET = 4
LENGTHS = Lengths.of(SOURCE, TARGET) * SENTENCES


def test_base_is_frozen() -> None:
    base = composed("base", "paper").settings
    assert asdict(base.config.model) == {**MODEL, **LATER}
    assert asdict(base.config.train) == {**DECIDING, **ADAM, **LIMIT, **OBSERVING, "seed": 1}
    assert asdict(base.config.decode) == DECODE


def test_the_key_is_the_hash_of_exactly_what_decides_the_weights() -> None:
    config = {"model": MODEL, "train": DECIDING}
    decides = {"task": ["translation", 4], "config": config, "seed": 1, "fingerprint": "some text"}
    text = json.dumps(decides, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    expected = hashlib.sha256(text.encode("utf-8")).hexdigest()
    assert trial_key(composed("base", "paper").settings.config, "some text") == expected


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_the_values_and_figures_that_the_paper_prints(row: str) -> None:
    group, printed, ppl, bleu, params_m, change = TABLE_3[row]
    settings = composed(row, "paper").settings
    model = {name: printed.get(name, value) for name, value in {**MODEL, **LATER}.items()}
    train = {
        name: printed.get(name, value)
        for name, value in {**DECIDING, **ADAM, **LIMIT, **OBSERVING, "seed": 1}.items()
    }
    assert (
        asdict(settings.config.model),
        asdict(settings.config.train),
        asdict(settings.config.decode),
    ) == (
        model,
        train,
        DECODE,
    )
    assert settings.row.group == group
    assert settings.row.published == {"ppl": ppl, "bleu": bleu, "params_m": params_m}
    assert describe(composed(row, "paper"), study("paper").base) == change


@pytest.mark.parametrize(
    ("row", "scale", "change"),
    [
        (
            "base",
            "half",
            "N 3, d_model 256, d_ff 1024, h 8, d_k = d_v = 32, P_drop 0.1, ε_ls 0.1, 2K steps",
        ),
        ("b_key_16", "tiny", "d_k 2"),
        ("c_width_1024", "tiny", "d_model 128, d_k = d_v = 16"),
        ("e_learned_positions", "half", "learned positional embedding instead of sinusoids"),
        ("big", "half", "d_model 512, d_ff 2048, h 16, P_drop 0.3, 6K steps"),
    ],
)
def test_the_change_is_described_with_the_values_after_scaling(
    row: str, scale: str, change: str
) -> None:
    assert describe(composed(row, scale), study(scale).base) == change


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("row", ROWS)
def test_a_row_differs_at_every_scale_in_the_same_keys(row: str, scale: str) -> None:
    exempt = {"train.steps"} if row == "big" and scale == "tiny" else set()
    scaled_row = composed(row, scale)
    assert set(scaled_row.changes) | exempt == set(composed(row, "paper").changes)
    assert set(scaled_row.kept.left_out) == exempt


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("row", ROWS)
def test_every_row_builds_at_every_scale(row: str, scale: str) -> None:
    settings = composed(row, scale).settings
    assert settings.config.problems() == []
    with torch.device("meta"):
        model = Transformer(settings.config.model, settings.config.data.vocab_size)
    size = sum(parameter.numel() for parameter in model.parameters())
    assert size == parameters(settings.config.model, settings.config.data.vocab_size)


@pytest.mark.parametrize("row", ROWS)
def test_flops_by_arithmetic_equal_what_torch_counts(row: str) -> None:
    settings = composed(row, "tiny").settings
    vocab_size = settings.config.data.vocab_size
    train = settings.config.train
    model = Transformer(settings.config.model, vocab_size).train()
    source, target = (
        torch.randint(4, vocab_size, (SENTENCES, length)) for length in (SOURCE, TARGET)
    )
    with autocast(train.precision, source.device):
        with FlopCounterMode(
            display=False
        ) as forward:  # under no_grad it cannot follow a learned table
            model.logits(model(source, target))
        with FlopCounterMode(
            display=False
        ) as training:  # the fused loss makes its gradients on the way forward
            summed_loss(model, model(source, target), target, train.label_smoothing).backward()
    assert forward.get_total_flops() == forward_flops(settings.config.model, vocab_size, LENGTHS)
    assert training.get_total_flops() == training_flops(settings.config.model, vocab_size, LENGTHS)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_file_holds_only_its_difference(row: str) -> None:
    text = (SHIPPED / "row" / f"{row}.yaml").read_text("utf-8")
    content = yaml.safe_load(text)
    assert text.startswith("# @package _global_\n")
    assert {"row"} <= set(content) <= {"row", "model", "train"}
    difference = content.get("model", {}) | content.get("train", {})
    # the paper prints this cell of big, though it is base's
    printed = {"n_layers": 6} if row == "big" else {}
    assert difference == TABLE_3[row][1] | printed


def test_the_default_sweep_is_the_paper_s_table_in_its_order(tmp_path: Path) -> None:
    composition = composed_sweep([], tmp_path)
    assert [row.name for row in composition.rows] == list(TABLE_3)
    assert sorted(TABLE_3) == ROWS
    assert composition.shared.sweep.seeds == [1]
