"""Restricted self-attention: each block of queries reads the keys around it (section 4).

Shape suffixes as in ``attention.py``.
"""

import math

import torch
from torch import Tensor

from transformer.window import Block, Window


def block_mask(
    window: Window,
    block: Block,
    padding_mask: Tensor | None,
    device: torch.device,
) -> Tensor:
    """−∞ outside the window and at padding, as [T, S] or [B, 1, T, S]; T and S are the block's.

    A padded query may have only padding in its window. Its own key stays legal, since a softmax
    over no position is NaN, and so are its gradients.
    """
    query_T1 = torch.arange(block.queries.start, block.queries.stop, device=device)[:, None]
    key_S = torch.arange(block.keys.start, block.keys.stop, device=device)
    back_TS = query_T1 - key_S
    farthest_ahead = 0 if window.causal else window.radius
    outside_TS = (back_TS > window.radius) | (back_TS < -farthest_ahead)
    mask_TS = torch.zeros(back_TS.shape, device=device).masked_fill(outside_TS, -math.inf)
    if padding_mask is None:
        return mask_TS
    mask_B1TS = mask_TS + padding_mask[..., block.keys]
    return mask_B1TS.masked_fill(back_TS == 0, 0.0)
