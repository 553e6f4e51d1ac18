"""A word that chooses behavior and is none of the known ones fails; it never falls through to another behavior."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from small_trials import SMALL

from transformer.cost import parameters
from transformer.model.encoder_decoder import Positions, Transformer
from transformer.training.precision import autocast

ROTARY = replace(SMALL, positions=cast(Any, "rotary"))
UNKNOWN: dict[str, Callable[[], object]] = {
    "positions": lambda: Positions(ROTARY),
    "a model's positions": lambda: Transformer(ROTARY, 30),
    "parameters of positions": lambda: parameters(ROTARY, 30),
    "precision": lambda: autocast(cast(Any, "fp8"), torch.device("cpu")),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_variant_fails(name: str) -> None:
    with pytest.raises(AssertionError, match="unreachable"):
        UNKNOWN[name]()
