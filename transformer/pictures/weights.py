"""The attention weights of one forward pass. Shape suffixes as in ``model/attention.py``."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from transformer.model.encoder_decoder import Transformer
from transformer.model.observation import Attention, attentions_by_place, observed


@torch.no_grad()
def attention_weights(
    model: Transformer,
    source_BS: Tensor,
    shifted_BT: Tensor,
) -> Mapping[str, Tensor]:
    """What every head reads: by place, [layers, B, H, T, S] float32 on the CPU.

    ``shifted_BT`` is the decoder's input. ``model`` is in evaluation mode.
    """
    weights: dict[Attention, Tensor] = {}
    places = attentions_by_place(model)
    attentions = [attention for layers in places.values() for attention in layers]
    with observed({attention: partial(_keep, weights, attention) for attention in attentions}):
        model(source_BS, shifted_BT)
    by_place: dict[str, Tensor] = {}
    for place, layers in places.items():
        by_place[place] = torch.stack([weights[attention] for attention in layers])
    return by_place


def _keep(
    weights: dict[Attention, Tensor],
    attention: Attention,
    _logits_BHTS: Tensor,
    weights_BHTS: Tensor,
) -> None:
    weights[attention] = weights_BHTS.float().cpu()
