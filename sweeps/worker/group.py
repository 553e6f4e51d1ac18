"""The workers of one trial as torch.distributed joins them; with one worker nothing here needs torch."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def process_group(backend: str, address: str, rank: int, world: int) -> Iterator[None]:
    """Join as worker ``rank`` of ``world`` at ``address``."""
    if world == 1:
        yield
        return
    import torch.distributed

    from sweeps.worker.rendezvous import form_group

    form_group(backend, address, rank, world)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def barrier() -> None:
    """Wait for all workers, if the trial has joined them."""
    distributed = _joined()
    if distributed is not None:
        distributed.barrier()


class StopVote:
    """A vote at every step on stop requests: all workers must leave training after the same step.

    The votes of a step are counted after the next one, so that no step waits for them.
    """

    def __init__(self) -> None:
        self._group: Any = None
        self._cast: tuple[Any, Any] | None = None

    def agreed(self, own: bool) -> bool:
        """Whether training ends after this step. Without a process group each worker has its own answer."""
        distributed = _joined()
        if distributed is None:
            return own
        import torch

        if self._group is None:
            self._group = _own_group()
        before, votes = self._cast, torch.tensor(float(own))
        self._cast = votes, distributed.all_reduce(votes, group=self._group, async_op=True)
        if before is None:
            return False
        before[1].wait()
        return bool(before[0])


def _own_group() -> Any:
    """A vote on a GPU would wait for its queue, and one more of a worker would be added to a sum of the task's."""
    import torch.distributed

    from sweeps.worker.rendezvous import WAITING

    return torch.distributed.new_group(backend="gloo", timeout=WAITING)


def _joined() -> Any:
    """torch.distributed, if a process group was formed, by the trial's ``process_group`` or by a framework."""
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed is not None and distributed.is_initialized() else None
