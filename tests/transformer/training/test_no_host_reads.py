"""A training step in the GPU's form never reads a value from the device, which would make the host wait."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small_trials import SMALL, random_pairs, small_trial
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from transformer.data.batches import collate
from transformer.training import loss as loss_module
from transformer.training.optimizer import adam
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

PAIRS = random_pairs(20, longest=9)
DROPPED_OUT = replace(SMALL, p_drop=0.2, attention_dropout=0.1, relu_dropout=0.1)


class HostReads(TorchDispatchMode):
    """Records each operation whose result or shape the host must wait for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[str] = []

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = operation.overloadpacket.__name__
        if name in {"_local_scalar_dense", "nonzero", "masked_select"} or (name == "index" and _by_mask(args[1])):
            self.operations.append(name)
        return operation(*args, **(kwargs or {}))


def _by_mask(indices: Any) -> bool:
    return any(isinstance(index, Tensor) and index.dtype == torch.bool for index in indices)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_reads_nothing_from_the_device(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "_over_real_cells", loss_module._over_all_cells)
    trial = small_trial(model=DROPPED_OUT, precision=precision)
    state, batch = start(trial, 30, torch.device("cpu")), collate(PAIRS, np.arange(9))
    state.optimizer = adam(state.model, capturable=True)
    with HostReads() as reads:
        train_step(state, [batch, batch], trial, Worker(), make_forward_backward(state.model, trial))
    assert batch.source_padded
    assert reads.operations == []


def test_host_reads_are_detected() -> None:
    x = torch.arange(4)
    with HostReads() as reads:
        _ = bool(x.any()), x[x > 1], x.nonzero(), x.masked_select(x > 1), x[torch.tensor([1, 2])]
    assert reads.operations == ["_local_scalar_dense", "index", "nonzero", "masked_select"]
