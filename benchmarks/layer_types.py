"""The layer types of the paper's Table 1 as this project builds them, and what each one costs.

A layer here is the sub-layer alone: self-attention with its projections, or what stands in its
place, with a residual and LayerNorm around it. Shapes: [1, n, d], one sentence of n positions.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.workloads import settings_of
from transformer.config import ModelConfig, TrialConfig
from transformer.model.attention import SelfAttention
from transformer.model.encoder_decoder import Residual
from transformer.model.substitutes import initialize_substitutes, substitute

HEADS = 8
MATRIX_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution")
READING = ("bmm", "baddbmm")
"""The products of attention that Table 1 counts: logits and sums of values, not projections."""


@dataclass(frozen=True)
class Size:
    """n positions, d dimensions, a convolution over k positions, a window of r positions."""

    n: int = 256
    d: int = 256
    k: int = 7
    r: int = 33

    def with_value(self, name: str, value: int) -> "Size":
        return replace(self, **{name: value})


@dataclass(frozen=True)
class LayerType:
    """A line of Table 1: its name, our settings, and the published orders of growth.

    ``operations`` are those that its published complexity counts.
    """

    name: str
    model: Callable[[Size], dict[str, Any]]
    complexity: str
    sequential: str
    path: str
    operations: Collection[str] = MATRIX_PRODUCTS


LAYER_TYPES = (
    LayerType(
        "self-attention",
        model=lambda size: {},
        complexity="n² d",
        sequential="1",
        path="1",
        operations=READING,
    ),
    LayerType(
        "recurrent",
        model=lambda size: {"encoder_layer": "recurrent"},
        complexity="n d²",
        sequential="n",
        path="n",
    ),
    LayerType(
        "convolutional",
        model=lambda size: {"encoder_layer": "convolutional", "kernel": size.k},
        complexity="k n d²",
        sequential="1",
        path="n / k",
    ),
    LayerType(
        "convolutional, dilated",
        model=lambda size: {
            "encoder_layer": "convolutional",
            "kernel": size.k,
            "dilation": size.k,
        },
        complexity="k n d²",
        sequential="1",
        path="log_k n",
    ),
    LayerType(
        "separable",
        model=lambda size: {"encoder_layer": "separable", "kernel": size.k},
        complexity="k n d + n d²",
        sequential="1",
        path="n / k",
    ),
    LayerType(
        "restricted attention",
        model=lambda size: {"attention_window": size.r},
        complexity="r n d",
        sequential="1",
        path="n / r",
        operations=READING,
    ),
)
ATTENTION, RECURRENT, CONVOLUTIONAL, _, SEPARABLE, _ = LAYER_TYPES


@cache
def base_model() -> ModelConfig:
    """The paper's base, from which a layer takes all settings but its size and type."""
    trial: TrialConfig = settings_of(["row=base", "scale=paper"]).config
    return trial.model


def model_config(layer_type: LayerType, size: Size) -> ModelConfig:
    """Our configuration of one layer type; d_k = d_v = d / h."""
    d_head = size.d // HEADS
    base = base_model()
    sized = replace(base, d_model=size.d, n_heads=HEADS, d_k=d_head, d_v=d_head)
    return replace(sized, **layer_type.model(size))


class Layer(nn.Module):
    """One sub-layer with its residual, in evaluation: no dropout."""

    def __init__(self, model: ModelConfig, depth: int) -> None:
        super().__init__()
        if model.encoder_layer == "attention":
            self.mixing: nn.Module = SelfAttention(model)
        else:
            self.mixing = substitute(model, depth)
        self.residual = Residual(model)
        initialize_substitutes(self)

    def forward(self, x_BSD: Tensor) -> Tensor:
        mixed = self.mixing(x_BSD, None)
        if isinstance(mixed, tuple):  # attention also returns its keys and values
            mixed = mixed[0]
        out_BSD: Tensor = self.residual(x_BSD, mixed)
        return out_BSD


def build(layer_type: LayerType, size: Size, depth: int = 0) -> Layer:
    """The layer number ``depth`` of a stack; dilation grows with it."""
    torch.manual_seed(1)
    return Layer(model_config(layer_type, size), depth).eval()


def sentence(size: Size, dtype: torch.dtype = torch.float32) -> Tensor:
    """[1, n, d] of random numbers."""
    torch.manual_seed(2)
    return torch.randn(1, size.n, size.d, dtype=dtype)


@contextmanager
def gate_by_gate() -> Iterator[None]:
    """torch's fused LSTM is one operation; without oneDNN, each of its steps can be seen."""
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
        yield


def flops(
    layer_type: LayerType, size: Size, operations: Collection[str] = MATRIX_PRODUCTS
) -> float:
    """FLOPs of these operations in one forward pass, as torch counts them."""
    layer = build(layer_type, size)
    with gate_by_gate(), FlopCounterMode(display=False) as counter:
        layer(sentence(size))
    counts = counter.get_flop_counts()["Global"]
    return float(sum(counts[packet] for packet in counts if packet.__name__ in operations))


class ProductChain(TorchDispatchMode):
    """The longest chain of matrix products in which each one needs the result of the last."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.depths: dict[int, int] = {}
        self.results: list[Tensor] = []  # an address must not be used twice
        self.longest: int = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        depth = max((self.depths.get(id(tensor), 0) for tensor in inputs), default=0)
        depth += operation.overloadpacket.__name__ in MATRIX_PRODUCTS
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self.depths[id(tensor)] = depth
                self.results.append(tensor)
        self.longest = max(self.longest, depth)
        return result


def sequential_steps(layer_type: LayerType, size: Size) -> int:
    """Matrix products of a forward pass that must wait for one another."""
    layer = build(layer_type, size)
    chain = ProductChain()
    with gate_by_gate(), chain:
        layer(sentence(size))
    return chain.longest


def layers_across(layer_type: LayerType, size: Size) -> int:
    """Layers until the middle position has read the whole sentence, by gradients.

    In float64, so that no gradient becomes zero by its size.
    """
    start = sentence(size, torch.float64).requires_grad_()
    x = start
    for depth in range(size.n):
        x = build(layer_type, size, depth).double()(x)
        (gradient,) = torch.autograd.grad(
            x[0, size.n // 2].square().sum(), start, retain_graph=True
        )
        if gradient[0].any(dim=1).all():
            return depth + 1
    raise AssertionError(f"{layer_type.name}: {size.n} layers do not read {size.n} positions")


def path_length(layer_type: LayerType, size: Size) -> int:
    """Steps through which the middle reads the farthest position: layers, or those of recurrence."""
    layers = layers_across(layer_type, size)
    return layers * size.n if layer_type.sequential == "n" else layers


def cpu_seconds(kinds: list[tuple[LayerType, Size]], rounds: int) -> list[float]:
    """Median CPU seconds of a forward pass of each, in turn, on one thread."""
    passes = [_forward(layer_type, size) for layer_type, size in kinds]
    seconds: list[list[float]] = [[] for _ in passes]
    for _ in range(rounds + 1):
        for run, times in zip(passes, seconds, strict=True):
            began = time.process_time()
            run()
            times.append(time.process_time() - began)
    return [median(times[1:]) for times in seconds]  # the first round warms up


def _forward(layer_type: LayerType, size: Size) -> Callable[[], Tensor]:
    layer = build(layer_type, size)
    x = sentence(size)

    @torch.inference_mode()
    def run() -> Tensor:
        return layer(x)  # type: ignore[no-any-return]

    return run


def exponent(values: list[int], costs: list[float]) -> float:
    """The power of the value that fits the costs best: the slope of their logarithms."""
    logs = [(math.log(value), math.log(cost)) for value, cost in zip(values, costs, strict=True)]
    mean_value = sum(x for x, _ in logs) / len(logs)
    mean_cost = sum(y for _, y in logs) / len(logs)
    above = sum((x - mean_value) * (y - mean_cost) for x, y in logs)
    below = sum((x - mean_value) ** 2 for x, _ in logs)
    return above / below


def crossing(values: list[int], ratios: list[float]) -> float | None:
    """The value at which a ratio reaches 1, interpolated between logarithms; None if it does not."""
    pairs = list(zip(values, ratios, strict=True))
    for (left, low), (right, high) in pairwise(pairs):
        if low < 1 <= high:
            share = -math.log(low) / (math.log(high) - math.log(low))
            return left * math.exp(share * math.log(right / left))
    return None
