"""What a picture shows: the kind of attention, its layer and its heads, counted from 1."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from transformer.config import ModelConfig
from transformer.faults import Fault, FaultyError

FORMATS = (".html", ".svg", ".pdf", ".png")
"""The endings of a picture's file."""


class Kind(StrEnum):
    """Where attention is: ``cross`` is the decoder's attention to the encoder."""

    encoder = "encoder"
    decoder = "decoder"
    cross = "cross"


TITLES = {
    Kind.encoder: "Encoder self-attention",
    Kind.decoder: "Decoder self-attention",
    Kind.cross: "Decoder's attention to the encoder",
}


@dataclass(frozen=True)
class Choice:
    """The attention of one kind, in one layer, and some of its heads."""

    kind: Kind
    layer: int
    heads: tuple[int, ...]

    def title(self, n_layers: int) -> str:
        """Such as "Encoder self-attention, layer 2 of 3"."""
        return f"{TITLES[self.kind]}, layer {self.layer} of {n_layers}"


def kinds_of(model: ModelConfig) -> list[Kind]:
    """The kinds of attention that this model has."""
    if model.encoder_layer == "attention":
        return list(Kind)
    return [Kind.decoder, Kind.cross]


def choose(
    model: ModelConfig,
    kind: Kind | None = None,
    layer: int | None = None,
    heads: str | None = None,
) -> Choice:
    """The choice of these options; by default the first kind, the last layer but one, all heads.

    Raises FaultyError with every fault.
    """
    faults = [
        *_kind_faults(model, kind),
        *_layer_faults(model, layer),
        *_head_faults(model, heads),
    ]
    if faults:
        raise FaultyError(*faults)
    chosen_heads = range(1, model.n_heads + 1) if heads is None else _numbers(heads)
    return Choice(
        kind or kinds_of(model)[0],
        layer or max(1, model.n_layers - 1),
        tuple(dict.fromkeys(chosen_heads)),
    )


def _kind_faults(model: ModelConfig, kind: Kind | None) -> Iterator[Fault]:
    kinds = kinds_of(model)
    if kind is not None and kind not in kinds:
        problem = f"is {kind}, but the model has {model.encoder_layer} encoder layers"
        yield Fault("--kind", problem, f"must be {' or '.join(kinds)}")


def _layer_faults(model: ModelConfig, layer: int | None) -> Iterator[Fault]:
    if layer is not None and not 1 <= layer <= model.n_layers:
        yield Fault("--layer", f"is {layer}", f"must be {_numbered('layer', model.n_layers)}")


def _head_faults(model: ModelConfig, heads: str | None) -> Iterator[Fault]:
    if heads is None:
        return
    numbers = _numbers(heads)
    if not numbers or not all(1 <= number <= model.n_heads for number in numbers):
        allowed = f"must be {_numbered('head', model.n_heads)}, or several such as 1,2"
        yield Fault("--head", f'is "{heads}"', allowed)


def _numbered(noun: str, count: int) -> str:
    """Such as "1 to 8: the model has 8 heads"."""
    if count == 1:
        return f"1: the model has 1 {noun}"
    return f"1 to {count}: the model has {count} {noun}s"


def _numbers(text: str) -> list[int]:
    """The whole numbers of a list with commas; empty if any part is something else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        return []
    return [int(part) for part in parts]
