"""Recurrence and convolutions in the place of the encoder's self-attention (section 4, Table 1).

Each maps [B, S, D] to the same shape, and takes ``pad_BS``, which is true at padding, or None
without padding. Padding has an embedding and a position like any piece, so none may read it.
Shape suffixes: B batch, S source, D d_model.
"""

from typing import assert_never

import torch
from torch import Tensor, nn

from transformer.config import ModelConfig


class Recurrence(nn.Module):
    """An LSTM in each direction, d_model/2 units each.

    The second one reads the sentence from its end: a gather reverses the pieces and leaves the
    padding last. Packed sequences would make the host wait for the lengths. Both run in float32:
    under autocast, torch would run cuDNN's LSTM in float16, where small gradients vanish.
    """

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        units = model.d_model // 2
        self.from_start = nn.LSTM(model.d_model, units, batch_first=True)
        self.from_end = nn.LSTM(model.d_model, units, batch_first=True)

    def forward(self, x_BSD: Tensor, pad_BS: Tensor | None) -> Tensor:
        with torch.autocast(x_BSD.device.type, enabled=False):
            pieces_BSD = x_BSD.to(self.from_start.get_parameter("weight_ih_l0").dtype)
            from_start, _ = self.from_start(pieces_BSD)
            from_end, _ = self.from_end(reversed_pieces(pieces_BSD, pad_BS))
        both_BSD = torch.cat([from_start, reversed_pieces(from_end, pad_BS)], dim=-1)
        return both_BSD.to(x_BSD.dtype)


def reversed_pieces(x_BSD: Tensor, pad_BS: Tensor | None) -> Tensor:
    """Each sentence from its last piece to its first; padding, which comes last, stays there."""
    if pad_BS is None:
        return x_BSD.flip(1)
    place_S = torch.arange(x_BSD.shape[1], device=x_BSD.device)
    length_B1 = (~pad_BS).sum(1, keepdim=True)
    place_BS = torch.where(pad_BS, place_S, length_B1 - 1 - place_S)
    return x_BSD.gather(1, place_BS[:, :, None].expand_as(x_BSD))


class Convolution(nn.Module):
    """A convolution over ``kernel`` pieces, from d_model to d_model."""

    def __init__(self, model: ModelConfig, layer: int) -> None:
        super().__init__()
        self.convolution = _convolution(model, layer, groups=1)

    def forward(self, x_BSD: Tensor, pad_BS: Tensor | None) -> Tensor:
        return _convolved(self.convolution, x_BSD, pad_BS)


class SeparableConvolution(nn.Module):
    """A convolution of each dimension by itself, then a projection from d_model to d_model."""

    def __init__(self, model: ModelConfig, layer: int) -> None:
        super().__init__()
        self.convolution = _convolution(model, layer, groups=model.d_model)
        self.projection = nn.Linear(model.d_model, model.d_model, bias=False)

    def forward(self, x_BSD: Tensor, pad_BS: Tensor | None) -> Tensor:
        projected: Tensor = self.projection(_convolved(self.convolution, x_BSD, pad_BS))
        return projected


def _convolution(model: ModelConfig, layer: int, groups: int) -> nn.Conv1d:
    """A convolution that keeps the length; in layer i, its pieces are dilation^i apart."""
    distance = model.dilation**layer
    return nn.Conv1d(
        model.d_model,
        model.d_model,
        model.kernel,
        padding=(model.kernel - 1) // 2 * distance,
        dilation=distance,
        groups=groups,
        bias=False,
    )


def _convolved(convolution: nn.Conv1d, x_BSD: Tensor, pad_BS: Tensor | None) -> Tensor:
    """The convolution along S, which reads zeros beyond each sentence."""
    if pad_BS is not None:
        x_BSD = x_BSD.masked_fill(pad_BS[:, :, None], 0)
    convolved_BDS: Tensor = convolution(x_BSD.transpose(1, 2))
    return convolved_BDS.transpose(1, 2)


def substitute(model: ModelConfig, layer: int) -> nn.Module:
    """What replaces self-attention in layer ``layer``, counted from 0."""
    match model.encoder_layer:
        case "recurrent":
            return Recurrence(model)
        case "convolutional":
            return Convolution(model, layer)
        case "separable":
            return SeparableConvolution(model, layer)
        case "attention":
            raise ValueError("self-attention needs no substitute")
        case _:
            assert_never(model.encoder_layer)


@torch.no_grad()
def initialize_substitutes(model: nn.Module) -> None:
    """Glorot-uniform, each matrix by its own shape; kernels of one dimension keep its variance.

    Forget gates start open, with a bias of 1; all other biases are 0.
    """
    for module in model.modules():
        if isinstance(module, nn.LSTM):
            _initialize_lstm(module)
        elif isinstance(module, nn.Conv1d) and module.groups == 1:
            nn.init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Conv1d):
            nn.init.kaiming_uniform_(module.weight, nonlinearity="linear")


def _initialize_lstm(lstm: nn.LSTM) -> None:
    """torch stacks the matrices of the four gates: input, forget, cell, output."""
    for name, weight in lstm.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(weight)
        else:
            for gate in weight.chunk(4):
                nn.init.xavier_uniform_(gate)
    forget_bias = lstm.get_parameter("bias_ih_l0").chunk(4)[1]
    nn.init.ones_(forget_bias)
