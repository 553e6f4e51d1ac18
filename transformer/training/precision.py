"""Arithmetic of a trial: matmuls in float32 or bfloat16; weights, moments, softmax and loss always in float32."""

import torch


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """A context in which matmuls run at ``precision``: "fp32" or "bf16"."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")
