"""Counts the kernels that a device would run."""

from collections import Counter
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

NOTHING_TO_COMPUTE = {  # allocations, and a view that is not marked as one in its schema
    torch.ops.aten.empty.memory_format,
    torch.ops.aten.empty_like.default,
    torch.ops.aten.new_empty.default,
    torch.ops.aten._unsafe_view.default,
}


class KernelCounter(TorchDispatchMode):
    """Counts, by name, the operations dispatched below autograd and autocast that compute or copy something.

    Views and allocations are not counted: they only write metadata. An operation counts once, although on a CPU
    it may be several loops. On a GPU it is about one launch; a dropout, here three operations, is one launch.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels: Counter[str] = Counter()

    def __torch_dispatch__(
        self, operation: OpOverload, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not _is_view(operation) and operation not in NOTHING_TO_COMPUTE:
            self.kernels[str(operation)] += 1
        return operation(*args, **(kwargs or {}))


def _is_view(operation: OpOverload) -> bool:
    """Whether its result shares an argument's memory, and it writes nothing there."""
    aliases = [returned.alias_info for returned in operation._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)
