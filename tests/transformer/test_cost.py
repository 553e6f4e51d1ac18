"""Parameters and FLOPs by arithmetic against the paper's figures, and parameters against real
models."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_trials import PAPER_BASE

from transformer.config import DecodeConfig, ModelConfig
from transformer.cost import (
    Lengths,
    MicroBatch,
    decoding_memory,
    parameters,
    planned_lengths,
    resting_memory,
    training_flops,
    training_memory,
)
from transformer.model.encoder_decoder import Transformer

ROWS: dict[
    str, tuple[dict[str, Any], str, str]
] = {  # millions: ours with 37 000 pieces; the paper's with 40 960
    "base": ({}, "63.046", "65"),
    "h 32": ({"n_heads": 32, "d_k": 16, "d_v": 16}, "63.046", "65"),
    "d_k 16": ({"d_k": 16}, "55.968", "58"),
    "d_k 32": ({"d_k": 32}, "58.327", "60"),
    "N 2": ({"n_layers": 2}, "33.645", "36"),
    "N 4": ({"n_layers": 4}, "48.345", "50"),
    "N 8": ({"n_layers": 8}, "77.746", "80"),
    "d_model 256": ({"d_model": 256, "d_k": 32, "d_v": 32}, "26.817", "28"),
    "d_model 1024": ({"d_model": 1024, "d_k": 128, "d_v": 128}, "163.815", "168"),
    "d_ff 1024": ({"d_ff": 1024}, "50.450", "53"),
    "d_ff 4096": ({"d_ff": 4096}, "88.236", "90"),
    "big": (
        {"d_model": 1024, "d_ff": 4096, "n_heads": 16},
        "214.172",
        "218",
    ),  # the only one published otherwise: 213
}
BIG = replace(PAPER_BASE, **ROWS["big"][0])


def count(model: ModelConfig, vocab_size: int) -> int:
    """Trainable numbers of the real model, on the meta device."""
    with torch.device("meta"):
        built = Transformer(model, vocab_size)
    return sum(parameter.numel() for parameter in built.parameters())


@pytest.mark.parametrize("row", ROWS)
def test_parameters_of_the_rows_are_those_of_the_paper_and_of_the_built_model(row: str) -> None:
    changes, ours, published = ROWS[row]
    plain, biased = (replace(PAPER_BASE, attention_bias=bias, **changes) for bias in (False, True))
    assert f"{parameters(plain, 37_000) / 1e6:.3f}" == ours
    assert f"{parameters(biased, 40_960) / 1e6:.0f}" == published
    assert (parameters(plain, 37_000), parameters(biased, 37_000)) == (
        count(plain, 37_000),
        count(biased, 37_000),
    )


@pytest.mark.parametrize(
    ("model", "steps", "flops"),
    [(PAPER_BASE, 100_000, "9.52e+17"), (BIG, 300_000, "9.67e+18")],
    ids=["base", "big"],
)
def test_training_flops_at_25000_tokens_of_length_25(
    model: ModelConfig, steps: int, flops: str
) -> None:
    assert f"{training_flops(model, 37_000, planned_lengths(25_000, steps, 25, 25)):.2e}" == flops


def test_planned_batches_are_filled_by_the_longer_side() -> None:
    lengths = planned_lengths(tokens_per_batch=100, steps=3, mean_source=10, mean_target=20)
    assert lengths == Lengths(150, 300, 1500, 6000, 3000, sentences=15)


HALF = replace(PAPER_BASE, n_layers=3, d_model=256, d_ff=1024, d_k=32, d_v=32)
QUARTER = replace(HALF, d_model=128, d_ff=512, d_k=16, d_v=16)
TINY = replace(PAPER_BASE, n_layers=3, d_model=64, d_ff=256, d_k=8, d_v=8)
TINY_BIG = replace(TINY, d_model=128, d_ff=512, n_heads=16)
OF_RAY = 0.22e9
"""A worker's memory beyond that of a process that trains without Ray; measured at tiny."""


@pytest.mark.parametrize(
    ("model", "vocab_size", "tokens", "precision", "measured"),
    [
        (HALF, 8000, 1000, "bf16", 2.20e9),
        (QUARTER, 8000, 1000, "fp32", 2.02e9),
        (replace(QUARTER, n_heads=1, d_k=128, d_v=128), 8000, 1000, "fp32", 1.90e9),
        (replace(QUARTER, n_layers=1), 8000, 1000, "fp32", 1.58e9),
        (replace(QUARTER, n_layers=4), 8000, 1000, "fp32", 2.38e9),
        (replace(QUARTER, d_ff=1024), 8000, 1000, "fp32", 2.25e9),
        (replace(QUARTER, d_model=64, d_k=8, d_v=8), 8000, 1000, "fp32", 0.95e9),
        (TINY, 1000, 300, "fp32", 0.53e9),
        (TINY_BIG, 1000, 300, "fp32", 0.68e9 + OF_RAY),
    ],
    ids=[
        *("half", "quarter", "one head", "shallow quarter", "deeper quarter", "wider quarter"),
        *("narrow quarter", "tiny", "tiny big"),
    ],
)
def test_memory_by_formula_is_near_the_measured_peak_of_a_worker(
    model: ModelConfig, vocab_size: int, tokens: int, precision: Any, measured: float
) -> None:
    """Of whole trials with their evaluation. ``tokens`` are those of a block."""
    assert training_memory(
        model, vocab_size, MicroBatch(tokens), precision, "cpu"
    ) == pytest.approx(measured, rel=0.2)


def test_memory_grows_with_the_model_and_with_the_micro_batch() -> None:
    sizes = [
        training_memory(model, 37_000, MicroBatch(3_125), "bf16", "cuda")
        for model in (PAPER_BASE, BIG)
    ]
    assert sizes[0] < sizes[1]
    assert training_memory(PAPER_BASE, 37_000, MicroBatch(1_000), "bf16", "cuda") < sizes[0]


def test_memory_of_decoding_is_that_of_keys_values_and_logits() -> None:
    """100 sentences of 20 pieces with beam 4: 400 hypotheses of up to 70 positions."""
    decode = DecodeConfig(
        beam=4, alpha=0.6, max_extra=50, average_checkpoints=1, average_every=1000
    )
    batch = MicroBatch(2_000, 20)
    memory = decoding_memory(PAPER_BASE, 37_000, batch, decode, "bf16", "cuda")
    keys_and_values = 2 * 400 * 70 * 6 * 2 * 512
    logits = 6 * 400 * 37_000
    assert memory - resting_memory(PAPER_BASE, 37_000, "cuda") == keys_and_values + logits
