"""Parameters and FLOPs by arithmetic, against the paper's figures and against real models."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_trials import PAPER_BASE, small_model
from torch.utils.flop_counter import FlopCounterMode

from transformer.config import ModelConfig
from transformer.cost import Lengths, forward_flops, parameters, planned_lengths, training_flops
from transformer.model.encoder_decoder import Transformer
from transformer.training.loss import summed_loss

ROWS: dict[str, dict[str, Any]] = {
    "base": {},
    "d_k 16": {"d_k": 16},
    "d_k 32": {"d_k": 32},
    "N 2": {"n_layers": 2},
    "N 4": {"n_layers": 4},
    "N 8": {"n_layers": 8},
    "d_model 256": {"d_model": 256, "d_k": 32, "d_v": 32},
    "d_model 1024": {"d_model": 1024, "d_k": 128, "d_v": 128},
    "d_ff 1024": {"d_ff": 1024},
    "d_ff 4096": {"d_ff": 4096},
    "big": {"d_model": 1024, "d_ff": 4096, "n_heads": 16},
}
BIG = replace(PAPER_BASE, **ROWS["big"])
SMALL_VARIANTS: list[dict[str, Any]] = [
    {},
    {"attention_bias": True},
    {"positions": "learned"},
    {"positions": "learned", "attention_bias": True, "n_layers": 1, "d_k": 3, "d_v": 4},
]


def count(model: ModelConfig, vocab_size: int) -> int:
    """Trainable numbers of the real model, on the meta device."""
    with torch.device("meta"):
        built = Transformer(model, vocab_size)
    return sum(parameter.numel() for parameter in built.parameters())


@pytest.mark.parametrize(("attention_bias", "exact"), [(False, 63_045_632), (True, 63_073_280)])
def test_base_with_37000_pieces_has_exactly_this_many_parameters(attention_bias: bool, exact: int) -> None:
    assert parameters(replace(PAPER_BASE, attention_bias=attention_bias), 37_000) == exact


@pytest.mark.parametrize(
    ("row", "attention_bias", "millions"),
    [
        ("big", False, "214.172"),
        ("big", True, "214.227"),
        ("d_k 16", False, "55.968"),
        ("d_k 32", False, "58.327"),
        ("N 2", False, "33.645"),
        ("N 4", False, "48.345"),
        ("N 8", False, "77.746"),
        ("d_model 256", False, "26.817"),
        ("d_model 1024", False, "163.815"),
        ("d_ff 1024", False, "50.450"),
        ("d_ff 4096", False, "88.236"),
    ],
)
def test_parameters_of_the_rows_with_37000_pieces(row: str, attention_bias: bool, millions: str) -> None:
    model = replace(PAPER_BASE, attention_bias=attention_bias, **ROWS[row])
    assert f"{parameters(model, 37_000) / 1e6:.3f}" == millions


@pytest.mark.parametrize(
    ("row", "millions", "published"),
    [
        ("base", "65.101", 65),
        ("d_k 16", "58.016", 58),
        ("d_k 32", "60.378", 60),
        ("N 2", "35.681", 36),
        ("N 4", "50.391", 50),
        ("N 8", "79.811", 80),
        ("d_model 256", "27.844", 28),
        ("d_model 1024", "167.926", 168),
        ("d_ff 1024", "52.506", 53),
        ("d_ff 4096", "90.291", 90),
        ("big", "218.282", 218),  # published as 213: the only one that does not fit
    ],
)
def test_published_parameters_are_those_of_40960_pieces_and_attention_biases(
    row: str, millions: str, published: int
) -> None:
    counted = parameters(replace(PAPER_BASE, attention_bias=True, **ROWS[row]), 40_960) / 1e6
    assert f"{counted:.3f}" == millions
    assert round(counted) == published


@pytest.mark.parametrize(("n_heads", "width"), [(1, 512), (4, 128), (16, 32), (32, 16)])
def test_rows_a_do_not_change_the_number_of_parameters(n_heads: int, width: int) -> None:
    row = replace(PAPER_BASE, n_heads=n_heads, d_k=width, d_v=width)
    assert parameters(row, 37_000) == parameters(PAPER_BASE, 37_000)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("attention_bias", [False, True])
def test_parameters_by_arithmetic_equal_those_of_the_built_row(row: str, attention_bias: bool) -> None:
    model = replace(PAPER_BASE, attention_bias=attention_bias, **ROWS[row])
    assert parameters(model, 37_000) == count(model, 37_000)


@pytest.mark.parametrize(
    ("model", "steps", "flops"), [(PAPER_BASE, 100_000, "9.52e+17"), (BIG, 300_000, "9.67e+18")], ids=["base", "big"]
)
def test_training_flops_at_25000_tokens_of_length_25(model: ModelConfig, steps: int, flops: str) -> None:
    assert f"{training_flops(model, 37_000, planned_lengths(25_000, steps, 25, 25)):.2e}" == flops


def test_planned_batches_are_filled_by_the_longer_side() -> None:
    lengths = planned_lengths(tokens_per_batch=100, steps=3, mean_source=10, mean_target=20)
    assert lengths == Lengths(150, 300, 1500, 6000, 3000)


@pytest.mark.parametrize("changes", SMALL_VARIANTS, ids=str)
@pytest.mark.parametrize(("sentences", "n", "m"), [(1, 7, 4), (3, 5, 9)])
def test_forward_flops_equal_what_torch_counts(changes: dict[str, Any], sentences: int, n: int, m: int) -> None:
    model = small_model(**changes)
    source, target = torch.randint(4, 30, (sentences, n)), torch.randint(4, 30, (sentences, m))
    with FlopCounterMode(display=False) as counter:  # under no_grad it cannot follow a learned table
        model.logits(model(source, target))
    expected = forward_flops(model.config, 30, Lengths.of([(n, m)] * sentences))
    assert counter.get_total_flops() == expected


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_training_flops_equal_what_torch_counts_with_the_fused_loss(label_smoothing: float) -> None:
    model = small_model().train()
    source, target = torch.randint(4, 30, (3, 5)), torch.randint(4, 30, (3, 9))
    with FlopCounterMode(display=False) as counter:
        summed_loss(model, model(source, target), target, label_smoothing).backward()
    assert counter.get_total_flops() == training_flops(model.config, 30, Lengths.of([(5, 9)] * 3))
