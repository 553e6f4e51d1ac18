"""Look into the attentions of a forward pass: each shows its logits and weights to an observer.

A model that nobody observes computes as if this module didn't exist.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from transformer.model.attention import CrossAttention, Observer, SelfAttention
from transformer.model.encoder_decoder import Transformer

Attention = SelfAttention | CrossAttention


def attentions_by_place(model: Transformer) -> dict[str, list[Attention]]:
    """The attentions at ``encoder``, ``decoder`` and ``cross``, each from the first layer on.

    ``cross`` is the decoder's attention to the encoder. An encoder without self-attention is no
    place.
    """
    in_encoder = set(model.encoder.modules())
    places: dict[str, list[Attention]] = {}
    for attention in model.attentions():
        place = "cross" if isinstance(attention, CrossAttention) else "decoder"
        if attention in in_encoder:
            place = "encoder"
        places.setdefault(place, []).append(attention)
    return places


@contextmanager
def observed(observers: Mapping[Attention, Observer]) -> Iterator[None]:
    """A context in which each of these attentions has its observer."""
    try:
        for attention, observer in observers.items():
            attention.observer = observer
        yield
    finally:
        for attention in observers:
            attention.observer = None
