"""The arithmetic of decoding, which may differ from the arithmetic of training."""

import copy
import warnings
from typing import Literal, assert_never

import torch
from torch import Tensor, nn

from sweeps.schema import Problem, RefusedError
from transformer.model.encoder_decoder import Transformer

Arithmetic = Literal["fp32", "bf16", "int8"]


def quantize(model: Transformer, arithmetic: Arithmetic) -> Transformer:
    """A copy of the model for translating only; "fp32" is the model itself.

    "bf16": weights and activations in bfloat16. "int8", on CPUs: as "bf16", but the projections of the layers multiply
    8-bit integers, with one scale per output's weights and one for all inputs together. A translation may therefore
    depend slightly on the rest of its batch. Softmax and log P are always float32. Raises RefusedError for "int8" on
    other devices.
    """
    match arithmetic:
        case "fp32":
            return model
        case "bf16":
            return _for_inference(model).bfloat16()
        case "int8":
            if model.embedding.device.type != "cpu":
                raise RefusedError([Problem("arithmetic", 'is "int8" on a GPU', "must be fp32 or bf16 there")])
            quantized = _for_inference(model)
            _replace_linears(quantized)
            return quantized.bfloat16()
        case _:
            assert_never(arithmetic)


def _for_inference(model: Transformer) -> Transformer:
    return copy.deepcopy(model).eval().requires_grad_(False)


class _Int8Linear(nn.Module):
    """y = xWᵀ + b with W in 8-bit integers; x is quantized during the multiplication ("dynamic quantization")."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        largest = linear.weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny)
        zeros = torch.zeros(len(largest), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch is about to move these tensors elsewhere
            weight = torch.quantize_per_channel(linear.weight, largest / 127, zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(weight, linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        # 7 bits for x: with 8, processors without VNNI overflow 16 bits when they add pairs of products
        y: Tensor = torch.ops.quantized.linear_dynamic(x.float(), self.packed, reduce_range=True)
        return y.to(x.dtype)


def _replace_linears(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, _Int8Linear(child))
        else:
            _replace_linears(child)
