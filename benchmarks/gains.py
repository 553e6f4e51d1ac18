"""``python -m benchmarks.gains``: the gain of each optimization, by disabling it alone. One thread, CPU seconds.

At tiny in float32 and at half in bfloat16, with sentences as long as Multi30k's; takes about ten minutes.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Literal
from unittest.mock import patch

import numpy as np
import torch
import typer
from rich.console import Console
from torch import Tensor
from torch.nn import functional as F

from benchmarks.record import MEASURED
from benchmarks.sheet import Sheet, to_terminal
from benchmarks.timing import Rounds, in_rounds
from benchmarks.workloads import Size, Workload, drawn_pairs, workload
from tracking.provenance import ROOT, changes, git_state, of_process
from transformer.config import TrialConfig
from transformer.data.batches import Batch
from transformer.data.prepared import ParallelSet, Sentences
from transformer.data.vocabulary import EOS, PAD
from transformer.model.attention import KeyValue, SelfAttention
from transformer.model.encoder_decoder import Transformer
from transformer.training.precision import kept_memory
from transformer.training.state import TrainState, start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

SIZES = (
    Size("tiny, fp32", ("scale=tiny",), 1000, tokens=600, batches=6, rounds=Rounds(40, 40)),
    Size("half, bf16", ("scale=half",), 8000, tokens=1000, batches=4, rounds=Rounds(20, 20)),
)
IN_A_PROCESS = Rounds(5, 5)
PROCESSES = 5
Way = Callable[[], AbstractContextManager[None]]


@contextmanager
def torchs_dropout() -> Iterator[None]:
    """One random number per element."""

    def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
        return F.dropout(x, p, training)

    with ExitStack() as patches:
        for module in ("attention", "encoder_decoder"):
            patches.enter_context(patch(f"transformer.model.{module}.dropout", dropout))
        yield


@contextmanager
def torchs_softmax() -> Iterator[None]:
    """torch's softmax for rows of any length."""
    with patch("transformer.model.attention.ONE_VECTOR", 0):
        yield


@contextmanager
def torchs_loss() -> Iterator[None]:
    """All logits at once, and torch's own gradient; its smoothing gives ε/P to each piece, the gold one included."""

    def summed(model: Transformer, output_BTD: Tensor, target_BT: Tensor, label_smoothing: float) -> Tensor:
        logits, gold = model.logits(output_BTD).flatten(0, 1), target_BT.flatten()
        return F.cross_entropy(logits.float(), gold, ignore_index=PAD, reduction="sum", label_smoothing=label_smoothing)

    with patch("transformer.training.train.summed_loss", summed):
        yield


@contextmanager
def torchs_attention() -> Iterator[None]:
    """Fused, by ``scaled_dot_product_attention``."""

    def attend(query: Tensor, memory: KeyValue, mask: Tensor | None, p_drop: float) -> Tensor:
        mask = None if mask is None else mask.to(query.dtype)
        return (
            F.scaled_dot_product_attention(query, *memory, attn_mask=mask, dropout_p=p_drop).transpose(1, 2).flatten(2)
        )

    with patch("transformer.model.attention.attend", attend):
        yield


@contextmanager
def three_projections() -> Iterator[None]:
    """Separate matmuls for queries, keys and values."""

    def forward(
        self: SelfAttention, x: Tensor, mask: Tensor | None, past: KeyValue | None = None
    ) -> tuple[Tensor, KeyValue]:
        query, key, value = (F.linear(x, weight) for weight, _ in self.projections())
        memory = self.key_value(key, value)
        return self.read(query, memory, mask), memory

    with patch.object(SelfAttention, "forward", forward):
        yield


WAYS: dict[str, Way] = {
    "dropout: 16 random bits per element": torchs_dropout,
    "softmax: short rows in separate steps": torchs_softmax,
    "loss: some rows at a time, gradient in the forward pass": torchs_loss,
    "attention: explicit matmuls": torchs_attention,
    "queries, keys and values in one matmul": three_projections,
}


@dataclass(frozen=True)
class Variant:
    """Our training, or ours with one optimization disabled."""

    name: str
    trial: TrialConfig
    state: TrainState
    way: Way = nullcontext

    def train(self, batches: Sequence[Batch]) -> None:
        """One round: a step on each batch."""
        with self.way():
            for batch in batches:
                train_step(
                    self.state, [batch], self.trial, Worker(), make_forward_backward(self.state.model, self.trial)
                )


def main() -> None:
    """Measure the gain of each optimization on one CPU thread."""
    torch.set_num_threads(1)
    console = Console(highlight=False)
    console.width = max(console.width, 120)
    rows: list[tuple[str, ...]] = []
    for size in SIZES:
        with console.status(size.name):
            work = drawn_workload(size)
            rows += [*gains(work), *gain_of_memory(work)]
    note = "Each line except the first disables one optimization. Gain: the added CPU seconds, round by round."
    columns = ("size", "what", "ms per batch", "gain", "range")
    console.print(to_terminal(Sheet("Gain of each optimization", note, columns, rows, words=2)))
    found = {**git_state(ROOT, MEASURED), **of_process()}
    console.print(f"commit {found['commit']}{changes(found)}, {found['cpu']}, one thread")


def drawn_workload(size: Size) -> Workload:
    """Batches of drawn sentences, in the precision of the size's name."""
    work = workload(size, within(drawn_pairs(), size.vocab_size))
    precision: Literal["fp32", "bf16"] = "bf16" if size.name.endswith("bf16") else "fp32"
    return replace(work, trial=replace(work.trial, train=replace(work.trial.train, precision=precision)))


def within(pairs: ParallelSet, vocab_size: int) -> ParallelSet:
    """The same sentences with fewer distinct pieces."""
    others = EOS + 1
    sides = (
        Sentences(
            np.where(side.pieces < others, side.pieces, others + side.pieces % (vocab_size - others)), side.offsets
        )
        for side in (pairs.source, pairs.target)
    )
    return ParallelSet(*sides)


def gains(work: Workload) -> list[tuple[str, ...]]:
    """One line per disabled optimization, after a first line with all of them."""

    def variant(name: str, way: Way = nullcontext) -> Variant:
        return Variant(name, work.trial, start(work.trial, work.size.vocab_size, torch.device("cpu")), way)

    plain_adam = variant("Adam: fused")
    plain_adam.state.optimizer = torch.optim.Adam(plain_adam.state.model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    variants = [variant("all enabled"), *(variant(*item) for item in WAYS.items()), plain_adam]
    taken = in_rounds([partial(variant.train, work.batches) for variant in variants], work.size.rounds)
    return [_line(work, variant.name, seconds, taken[0]) for variant, seconds in zip(variants, taken, strict=True)]


def gain_of_memory(work: Workload) -> list[tuple[str, ...]]:
    """In alternating processes, each with one way of allocating, since freed memory stays in a process."""

    def seconds(kept: bool) -> float:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            return process.submit(_seconds_of_a_process, work.size, kept).result()

    as_it_is, taken_back = [], []
    for _ in range(PROCESSES):
        as_it_is.append(seconds(kept=True))
        taken_back.append(seconds(kept=False))
    name = "memory: freed blocks kept"
    return [_line(work, "all enabled, processes in turn", as_it_is, as_it_is), _line(work, name, taken_back, as_it_is)]


def _seconds_of_a_process(size: Size, kept: bool) -> float:
    torch.set_num_threads(1)
    with kept_memory() if kept else nullcontext():
        work = drawn_workload(size)
        ours = Variant("", work.trial, start(work.trial, size.vocab_size, torch.device("cpu")))
        return median(in_rounds([partial(ours.train, work.batches)], IN_A_PROCESS)[0])


def _line(work: Workload, name: str, seconds: list[float], as_it_is: list[float]) -> tuple[str, ...]:
    each = f"{median(seconds) / len(work.batches) * 1e3:.1f}"
    if seconds is as_it_is:
        return work.size.name, name, each, "", ""
    gained = [other / ours - 1 for other, ours in zip(seconds, as_it_is, strict=True)]
    return work.size.name, name, each, f"{median(gained):+.1%}", f"{min(gained):+.1%} to {max(gained):+.1%}"


if __name__ == "__main__":
    typer.run(main)
