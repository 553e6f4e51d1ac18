"""Forward and backward recorded as CUDA graphs, one per shape: a small model waits for launches, a graph is one.

What changes from step to step is fed from outside: the batch is copied into the graph's own, and at each replay torch
writes the generator's seed and offset where the graph's dropout reads them.
"""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from transformer.data.batches import Batch, Shape

ForwardBackward = Callable[[Batch], Tensor]
"""Forward and backward: adds to the gradients, and answers with the loss. Neither waits for the device nor seeds it."""


class CapturedForwardBackward:
    """Forward and backward, recorded for each of ``shapes`` and then replayed; batches of other shapes run plainly.

    So does the first of a shape, on the stream that will record: there libraries choose their kernels and take their
    memory. The gradients must stay where they are from then on, and be zeroed in place. All graphs share one memory:
    no two run at once, and the loss is copied before the next begins.
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
        # Of this thread alone: another is pinning and copying the batches to come, which recording must not forbid.
        with torch.cuda.graph(self.graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            self.loss = run(self.batch)

    def __call__(self, batch: Batch) -> Tensor:
        for own, given in zip(self.batch.tensors, batch.tensors, strict=True):
            own.copy_(given)
        self.graph.replay()
        return self.loss.clone()
