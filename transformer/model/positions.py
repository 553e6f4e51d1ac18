"""Positions of pieces in their sentence (section 3.5, and Table 3 row E)."""

from typing import assert_never

import torch
from torch import Tensor, nn

from transformer.config import ModelConfig


def sinusoids(length: int, d_model: int) -> Tensor:
    """[length, d_model]: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = position * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()


class Positions(nn.Module):
    """A table [max_positions, d_model] added to the embeddings: fixed sinusoids, or learned."""

    table: Tensor

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        match model.positions:
            case "learned":
                self.table = nn.Parameter(torch.empty(model.max_positions, model.d_model))
                nn.init.normal_(self.table, std=model.d_model**-0.5)
            case "sinusoids":
                self.register_buffer("table", sinusoids(model.max_positions, model.d_model), persistent=False)
            case _:
                assert_never(model.positions)

    def forward(self, start: int, length: int) -> Tensor:
        """[length, d_model] for positions start … start + length − 1."""
        return self.table[start : start + length]
