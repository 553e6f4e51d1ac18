"""Updates recorded as CUDA graphs, one a shape of batches: a small model waits for launches, and a graph is one launch.

What changes from step to step is fed from outside: the batch is copied into the graph's own, the learning rate stands
in a tensor, and at each replay torch writes the generator's seed and offset where the graph's dropout reads them.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from transformer.data.batches import Batch, Shape
from transformer.training.meter import Step

Update = Callable[[Sequence[Batch]], Step]
"""What the device does in a step, from its passes; the host neither waits for it nor seeds anything."""


class CapturedUpdate:
    """An update that is recorded for each of ``shapes`` and then replayed. Others, and several passes, run plainly.

    So does the first of a shape, on the stream that will record: there libraries choose their kernels and take their
    memory, and Adam makes its moments. All graphs share one memory: no two run at once, and what one answers is
    copied before the next begins.
    """

    def __init__(self, update: Update, shapes: Collection[Shape]) -> None:
        self.update, self.shapes = update, frozenset(shapes)
        self.warm: set[Shape] = set()
        self.graphs: dict[Shape, _Graph] = {}
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()

    def __call__(self, passes: Sequence[Batch]) -> Step:
        batch, shape = passes[0], passes[0].shape
        if len(passes) > 1 or shape not in self.shapes:
            return self.update(passes)
        if shape not in self.warm:
            self.warm.add(shape)
            return self._on_recording_stream(batch)
        if shape not in self.graphs:
            self.graphs[shape] = _Graph(self.update, batch, self.stream, self.pool)
        return self.graphs[shape](batch)

    def _on_recording_stream(self, batch: Batch) -> Step:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            step = self.update([batch])
        torch.cuda.current_stream().wait_stream(self.stream)
        return step


class _Graph:
    """One recording, with the batch that it reads and the step that it writes."""

    def __init__(self, update: Update, batch: Batch, stream: torch.cuda.Stream, pool: Any) -> None:
        self.batch = batch.with_tensors(part.clone() for part in batch.tensors)
        self.graph = torch.cuda.CUDAGraph()
        # Of this thread alone: another is pinning and copying the batches to come, which recording must not forbid.
        with torch.cuda.graph(self.graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            self.step = update([self.batch])

    def __call__(self, batch: Batch) -> Step:
        for own, given in zip(self.batch.tensors, batch.tensors, strict=True):
            own.copy_(given)
        self.graph.replay()
        return Step(*(value.clone() for value in self.step))
