"""Forward and backward recorded as CUDA graphs, one per shape: small models wait for launches, and a graph needs one.

The inputs that change per step come from outside: each batch is copied into the graph's batch, and at each replay
torch writes the generator's seed and offset where the graph's dropout reads them.
"""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from transformer.data.batches import Batch, Shape

ForwardBackward = Callable[[Batch], Tensor]
"""Forward and backward: adds to the gradients and returns the loss. It neither waits for the device nor seeds it."""


class CapturedForwardBackward:
    """Forward and backward, recorded for each of ``shapes`` and then replayed; batches of other shapes run eagerly.

    The first batch of a shape also runs eagerly, on the recording stream, where libraries choose kernels and allocate
    memory. From then on the gradients must stay in place and be zeroed in place. All graphs share one memory pool: no
    two run at once, and the loss is copied before the next one starts.
    """

    def __init__(self, run: ForwardBackward, shapes: Collection[Shape]) -> None:
        self.run, self.shapes = run, frozenset(shapes)
        self.warm: set[Shape] = set()
        self.graphs: dict[Shape, _Graph] = {}
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch) -> Tensor:
        shape = batch.shape
        if shape not in self.shapes:
            return self.run(batch)
        if shape not in self.warm:
            self.warm.add(shape)
            return self._on_recording_stream(batch)
        if shape not in self.graphs:
            self.graphs[shape] = _Graph(self.run, batch, self.stream, self.pool)
        return self.graphs[shape](batch)

    def _on_recording_stream(self, batch: Batch) -> Tensor:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self.run(batch)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss


class _Graph:
    """One recording, with the batch that it reads and the loss that it writes."""

    def __init__(self, run: ForwardBackward, batch: Batch, stream: torch.cuda.Stream, pool: Any) -> None:
        self.batch = batch.with_tensors(part.clone() for part in batch.tensors)
        self.graph = torch.cuda.CUDAGraph()
        # Only this thread's errors count: another thread pins and copies the next batches, which must stay allowed.
        with torch.cuda.graph(self.graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            self.loss = run(self.batch)

    def __call__(self, batch: Batch) -> Tensor:
        for own, given in zip(self.batch.tensors, batch.tensors, strict=True):
            own.copy_(given)
        self.graph.replay()
        return self.loss.clone()
