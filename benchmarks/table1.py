"""``python -m benchmarks.table1``: the paper's Table 1 beside what our layers cost and can reach.

FLOPs are counted by torch, time is CPU seconds of one thread, and paths are read from gradients.
Prints the tables, and writes them with commit and machine to ``benchmarks/results/``.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated

import torch
import typer
from rich.console import Console

from benchmarks.layer_types import (
    ATTENTION,
    CONVOLUTIONAL,
    LAYER_TYPES,
    RECURRENT,
    SEPARABLE,
    LayerType,
    Size,
    base_model,
    cpu_seconds,
    crossing,
    exponent,
    flops,
    path_length,
    sequential_steps,
)
from benchmarks.record import RESULTS, heading, provenance, write
from benchmarks.sheet import Sheet, to_markdown, to_terminal

SIZE = Size()
GRIDS = {
    "n": [128, 256, 512, 1024],
    "d": [128, 256, 512, 1024],
    "k": [3, 7, 15, 31],
    "r": [33, 65, 129, 257],
}
"""The values between which each exponent is fitted; the other sizes stay those of `SIZE`."""
LONG = 1024
"""n for the exponent of r, whose windows must be shorter than the sentence."""
CROSSING_LENGTHS = [32, 64, 128, 256, 512, 1024, 2048]
CROSSING_WIDTHS = [64, 128, 256]
STEP_LENGTHS = [16, 32, 64]
PATH_LENGTHS = [9, 27, 81]
PATH_SIZE = Size(d=16, k=3, r=9)

Costs = Callable[[Sequence[tuple[LayerType, Size]]], list[float]]


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each timing.")] = 7,
) -> None:
    """Measure the layer types of Table 1."""
    warnings.filterwarnings("ignore", message="TF32 acceleration")
    torch.set_num_threads(1)
    began = time.perf_counter()
    result = provenance("benchmarks.table1", peers=[])

    def timed(layers: Sequence[tuple[LayerType, Size]]) -> list[float]:
        return cpu_seconds(list(layers), rounds)

    sheets = [
        _exponents("FLOPs that Table 1 counts", counted, _FLOPS_NOTE),
        _exponents("CPU time of whole layers", timed, _TIME_NOTE),
        _steps(),
        _claims(timed),
    ]
    result["seconds"] = time.perf_counter() - began
    result["sheets"] = [{"title": sheet.title, "rows": list(sheet.rows)} for sheet in sheets]
    console = Console(highlight=False)
    console.width = max(console.width, 120)
    for sheet in sheets:
        console.print(to_terminal(sheet))
    head = [*heading("Layer types: Table 1, published and measured", result), ""]
    document = "\n".join([*head, *map(to_markdown, sheets)])
    console.print(f"Written: {write('table1', document, result, [], RESULTS)}")


def counted(layers: Sequence[tuple[LayerType, Size]]) -> list[float]:
    """FLOPs of the operations that Table 1 counts of each layer."""
    return [flops(layer_type, size, layer_type.operations) for layer_type, size in layers]


_FLOPS_NOTE = (
    "Exponents fitted to FLOPs of one forward pass: n² d has 2 for n and 1 for d. Attention counts "
    "its logits and sums of values, without the four projections."
)
_TIME_NOTE = (
    "Exponents fitted to CPU seconds of one forward pass, projections and residual included."
)


def _exponents(title: str, costs: Costs, note: str) -> Sheet:
    """One row per layer type, one column per size that it depends on."""
    rows = []
    for layer_type in LAYER_TYPES:
        exponents = [_fitted(layer_type, name, costs) for name in GRIDS]
        rows.append((layer_type.name, layer_type.complexity, *exponents))
    return Sheet(title, note, ("layer", "published", *GRIDS), rows, words=2)


def _fitted(layer_type: LayerType, name: str, costs: Costs) -> str:
    """The exponent of one size; "" if the layer's cost does not depend on it."""
    if name in ("k", "r") and f"{name} " not in layer_type.complexity:
        return ""
    start = SIZE.with_value("n", LONG) if name == "r" else SIZE
    sizes = [start.with_value(name, value) for value in GRIDS[name]]
    return f"{exponent(GRIDS[name], costs([(layer_type, size) for size in sizes])):.2f}"


def _steps() -> Sheet:
    """Products that wait for one another, and paths, at three lengths each."""
    rows = []
    for layer_type in LAYER_TYPES:
        steps = [str(sequential_steps(layer_type, Size(n=n, d=16))) for n in STEP_LENGTHS]
        paths = [str(path_length(layer_type, PATH_SIZE.with_value("n", n))) for n in PATH_LENGTHS]
        rows.append(
            (
                layer_type.name,
                layer_type.sequential,
                ", ".join(steps),
                layer_type.path,
                ", ".join(paths),
            )
        )
    columns = (
        "layer",
        "published steps",
        f"measured, n {_numbers(STEP_LENGTHS)}",
        "published path",
        f"measured, n {_numbers(PATH_LENGTHS)}",
    )
    note = (
        "Steps: the longest chain of matrix products, projections included. Path: layers until the "
        f"middle position has read the sentence, by gradients, with k {PATH_SIZE.k} and "
        f"r {PATH_SIZE.r}; a recurrent layer takes n steps."
    )
    return Sheet("Sequential steps and longest path", note, columns, rows, words=5)


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _claims(timed: Costs) -> Sheet:
    """What section 4 says of the layers' costs."""
    rows = [
        *(_dearer_attention(d, "FLOPs", _total_flops) for d in CROSSING_WIDTHS),
        *(_dearer_attention(d, "time", timed) for d in CROSSING_WIDTHS),
        *(_convolution_over_recurrence(k, "FLOPs", _total_flops) for k in GRIDS["k"]),
        *(_convolution_over_recurrence(k, "time", timed) for k in GRIDS["k"]),
        _separable_over_attention(),
    ]
    note = (
        "Whole layers as built. An LSTM in both directions has 12 n d² FLOPs and a convolution "
        "2 k n d², so their ratio is k / 6. A separable convolution with k = n has 2 n² d + 2 n d², "
        "self-attention and feed-forward together have 4 n² d + 24 n d²."
    )
    return Sheet("Claims of section 4", note, ("claim", "by", "published", "measured"), rows, 2)


def _total_flops(layers: Sequence[tuple[LayerType, Size]]) -> list[float]:
    return [flops(layer_type, size) for layer_type, size in layers]


def _dearer_attention(d: int, unit: str, costs: Costs) -> tuple[str, str, str, str]:
    """The n from which self-attention costs more than recurrence."""
    sizes = [Size(n=n, d=d) for n in CROSSING_LENGTHS]
    values = costs([(layer_type, size) for size in sizes for layer_type in (ATTENTION, RECURRENT)])
    ratios = [
        attention / recurrent
        for attention, recurrent in zip(values[::2], values[1::2], strict=True)
    ]
    n = crossing(CROSSING_LENGTHS, ratios)
    if n is not None:
        measurement = f"n = {n:.0f}"
    else:
        side = "below" if ratios[0] >= 1 else "above"
        end = CROSSING_LENGTHS[0] if ratios[0] >= 1 else CROSSING_LENGTHS[-1]
        measurement = f"{side} n = {end}"
    claim = f"attention is dearer than recurrence from n, d {d}"
    return claim, unit, f"n ≈ {d}", measurement


def _convolution_over_recurrence(k: int, unit: str, costs: Costs) -> tuple[str, str, str, str]:
    size = SIZE.with_value("k", k)
    convolution, recurrence = costs([(CONVOLUTIONAL, size), (RECURRENT, size)])
    claim = f"convolution over recurrence, k {k}"
    return claim, unit, str(k), f"{convolution / recurrence:.2f}"


def _separable_over_attention() -> tuple[str, str, str, str]:
    """With k = n, a separable convolution costs as much as attention and feed-forward together."""
    size = Size(n=257, d=SIZE.d, k=257)
    separable, attention = _total_flops([(SEPARABLE, size), (ATTENTION, size)])
    d_ff = base_model().d_ff * size.d // base_model().d_model
    feed_forward = 4 * size.n * size.d * d_ff
    ratio = separable / (attention + feed_forward)
    claim = f"separable with k = n over attention and feed-forward, n {size.n}"
    return claim, "FLOPs", "same order", f"{ratio:.2f}"


if __name__ == "__main__":
    typer.run(main)
