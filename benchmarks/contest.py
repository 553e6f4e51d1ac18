"""The contestants of a size, and their times for the same batches, in turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from torch import nn

from benchmarks.arithmetic import Arithmetic
from benchmarks.peers import (
    BuildPeer,
    Marian,
    PeerTraining,
    TorchTransformer,
    marian_with_explicit_attention,
    random_draws,
    trained_parameters,
)
from benchmarks.timing import Rounds, in_rounds
from benchmarks.workloads import Workload
from transformer.data.batches import Batch
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

OURS = "allelse"


@dataclass(frozen=True)
class Peer:
    """A peer with its defaults, and with attention by explicit matmuls."""

    name: str
    build: BuildPeer
    build_explicit: BuildPeer


# dropout makes its attention explicit anyway
TORCH = Peer("torch.nn.Transformer", TorchTransformer, TorchTransformer)
MARIAN = Peer("HF Marian", Marian, marian_with_explicit_attention)


@dataclass(frozen=True)
class Contestant:
    """A program in one arithmetic; ``tuned`` is a peer with our other switches: fused Adam,
    explicit attention."""

    program: str
    arithmetic: Arithmetic
    model: nn.Module
    step: Callable[[Batch], object]
    tuned: bool = False

    def train(self, batches: Sequence[Batch]) -> None:
        """One round: a step on each batch."""
        with self.arithmetic.applied():
            for batch in batches:
                self.step(batch)


def contestants(workload: Workload, peers: Sequence[Peer]) -> list[Contestant]:
    """Ours and the peers, freshly initialized, in every arithmetic."""
    peer_contestants = (contestant for peer in peers for contestant in _of_peer(workload, peer))
    return [*(ours(workload, arithmetic) for arithmetic in Arithmetic), *peer_contestants]


def ours(workload: Workload, arithmetic: Arithmetic) -> Contestant:
    """Our own training, freshly initialized."""
    trial = replace(
        workload.trial, train=replace(workload.trial.train, precision=arithmetic.precision)
    )
    worker = Worker()
    state = start(trial, workload.size.vocab_size, worker.device)
    return Contestant(
        OURS,
        arithmetic,
        state.model,
        lambda batch: train_step(
            state, [batch], trial, worker, make_forward_backward(state.model, trial)
        ),
    )


def measure(
    workload: Workload, programs: Sequence[Contestant], rates: dict[str, float], rounds: Rounds
) -> list[dict[str, Any]]:
    """One line per contestant: CPU seconds and target pieces/s of each round, and the mfu of their
    median.

    ``rates`` are FLOP/s of matmuls by arithmetic.
    """
    timings = in_rounds(
        [partial(contestant.train, workload.batches) for contestant in programs], rounds
    )
    return [_line(workload, *pair, rates) for pair in zip(programs, timings, strict=True)]


def describe(workload: Workload, programs: Sequence[Contestant]) -> list[dict[str, Any]]:
    """One line per program: trained parameters, and random draws of a forward pass."""
    batch = workload.batches[0]
    sentences = (batch.source[:2], batch.shifted[:2])
    return [
        {
            "size": workload.size.name,
            "program": contestant.program,
            "parameters": trained_parameters(contestant.model),
            "draws": random_draws(partial(contestant.model, *sentences)),
        }
        for contestant in programs
        if contestant.arithmetic is Arithmetic.FP32
    ]


def _line(
    workload: Workload, contestant: Contestant, seconds: list[float], rates: dict[str, float]
) -> dict[str, Any]:
    speed = [workload.targets / duration for duration in seconds]
    flops_per_s = workload.flops / median(seconds)
    return {
        "size": workload.size.name,
        "program": contestant.program,
        "arithmetic": contestant.arithmetic,
        "tuned": contestant.tuned,
        "targets": workload.targets,
        "cpu_seconds": seconds,
        "tokens_per_s": speed,
        "mfu": flops_per_s / rates[contestant.arithmetic],
    }


def _of_peer(workload: Workload, peer: Peer) -> list[Contestant]:
    """The peer's defaults in fp32 and bf16, and tuned; oneDNN only tuned, since it slows torch's
    fused attention."""
    plain = PeerTraining(peer.build, workload.trial, workload.size.vocab_size)
    tuned = PeerTraining(peer.build_explicit, workload.trial, workload.size.vocab_size, fused=True)
    return [
        _peer(peer.name, Arithmetic.FP32, plain),
        _peer(peer.name, Arithmetic.BF16, plain),
        _peer(peer.name, Arithmetic.ONEDNN, tuned, tuned=True),
        _peer(peer.name, Arithmetic.BF16, tuned, tuned=True),
    ]


def _peer(
    name: str, arithmetic: Arithmetic, training: PeerTraining, tuned: bool = False
) -> Contestant:
    return Contestant(
        name,
        arithmetic,
        training.model,
        partial(training.step, precision=arithmetic.precision),
        tuned,
    )
