"""Before the first step a row changes only what its file names: initial weights, batches and learning rates."""

import math
from collections import defaultdict
from dataclasses import asdict, replace
from functools import cache

import pytest
import torch
from composed_rows import ROWS, SCALES, composed
from torch import Tensor

from transformer.config import ModelConfig
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.encoder_decoder import FeedForward, Residual, Transformer

VOCAB_SIZE = 500
Kind = tuple[str, tuple[int, ...]]
"""The role of a weight, and its shape."""


def attention(name: str, module: SelfAttention | CrossAttention) -> dict[str, Tensor]:
    weights = dict(zip(("W^Q", "W^K", "W^V"), (weight for weight, _ in module.projections()), strict=True))
    return {f"{name} {kind}": weight for kind, weight in (weights | {"W^O": module.output.weight}).items()}


def weights_of(module: torch.nn.Module) -> dict[str, Tensor]:
    match module:
        case SelfAttention() | CrossAttention():
            return attention(type(module).__name__, module)
        case FeedForward():
            return {"inner": module.inner.weight, "outer": module.outer.weight}
        case Residual():
            return {"norm": module.norm.weight}
    return {}


@cache
def spreads(model: ModelConfig) -> dict[Kind, float]:
    """Root mean square of the first weights of each kind, over all layers, and of the table of positions."""
    torch.manual_seed(1)
    made, found = Transformer(model, VOCAB_SIZE), defaultdict(list)
    named = {"embedding": made.embedding, f"{model.positions} of source": made.source_positions.table}
    for weights in [named, *map(weights_of, made.modules())]:
        for name, weight in weights.items():
            found[name, tuple(weight.shape)].append(weight.detach().square().mean().sqrt().item())
    return {kind: sum(each) / len(each) for kind, each in found.items()}


def started(row: str, scale: str) -> dict[Kind, float]:
    """A row's. Rows that differ only in what changes no start are built once, and wide ones with few layers."""
    model = composed(row, scale).settings.trial.model
    layers = min(model.n_layers, 2) if scale == "paper" else model.n_layers
    d_k, d_v = model.n_heads * model.d_k, model.n_heads * model.d_v
    return spreads(replace(model, p_drop=0.0, n_layers=layers, n_heads=1, d_k=d_k, d_v=d_v))


def by_its_shape(name: str, shape: tuple[int, ...]) -> float | None:
    """How far the first weights of a kind spread by their own shape alone; None for sinusoids, which are no weight."""
    if name.startswith("sinusoids"):
        return None
    if name == "norm":
        return 1.0
    if name == "embedding" or name.startswith("learned"):
        return float(shape[1] ** -0.5)
    gain = math.sqrt(0.5) if name.endswith(("W^Q", "W^K", "W^V")) else 1.0
    return gain * math.sqrt(2 / sum(shape))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("row", ROWS)
def test_a_row_changes_the_start_of_no_weight_but_by_its_shape(row: str, scale: str) -> None:
    base, found = started("base", scale), started(row, scale)
    assert len(found) == 13
    for kind, spread in found.items():
        expected = by_its_shape(*kind)
        assert expected is None or spread == pytest.approx(expected, rel=0.03), kind
        assert kind not in base or spread == pytest.approx(base[kind], rel=0.03), kind


@pytest.mark.parametrize("scale", SCALES)
def test_all_rows_see_the_same_batches_and_the_same_factors_of_the_rate(scale: str) -> None:
    """Batches are a function of these and of the text; the rate is one of d_model, warm-up and factor."""
    shared = ("tokens_per_batch", "seed", "warmup_steps", "lr_factor", "precision")
    settings = [composed(row, scale).settings for row in ROWS]
    trains = [{name: asdict(each.trial.train)[name] for name in shared} for each in settings]
    assert all(train == trains[0] for train in trains)
    assert len({each.trial.model.max_positions for each in settings}) == 1
    assert all(each.trial.data == settings[0].trial.data for each in settings)
