"""Whole epochs: a checkout in its own process trains as this one, and a peer's step is one update
from all blocks."""

from dataclasses import replace

import torch

from benchmarks.epoch import EpochSize, epoch, in_processes
from benchmarks.peers import PeerTraining, marian_with_explicit_attention
from benchmarks.workloads import drawn_pairs
from tracking.provenance import ROOT
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

PIECES = 8000
TOY = EpochSize("toy", ("scale=tiny", "model.max_positions=64", "train.precision=fp32"), shapes=3)


def test_checkouts_in_their_own_processes_take_the_steps_of_this_one() -> None:
    work = epoch(TOY, drawn_pairs(2000), PIECES)
    line = in_processes(work, old=ROOT)
    new = [step["loss"] for step in line["steps"]["new"]]
    old = [step["loss"] for step in line["steps"]["old"]]
    worker = Worker()
    state = start(work.trial, PIECES, worker.device)
    forward_backward = make_forward_backward(state.model, work.trial)
    losses = [
        float(train_step(state, blocks, work.trial, worker, forward_backward).loss)
        for blocks in work.steps()
    ]
    assert new == old == losses
    assert line["shapes"][-1] >= TOY.shapes


def test_a_peer_takes_the_mean_over_the_target_pieces_of_all_blocks() -> None:
    several = replace(TOY, words=(*TOY.words, "train.tokens_per_batch=2000"))
    work = epoch(several, drawn_pairs(2000), PIECES)
    trial = replace(work.trial, model=replace(work.trial.model, p_drop=0.0))
    blocks = next(blocks for blocks in work.steps() if len(blocks) > 1)

    def loss(numbers: slice) -> float:
        peer = PeerTraining(marian_with_explicit_attention, trial, PIECES)
        return float(peer.step_on_blocks(blocks[numbers], "fp32"))

    parts = sum(loss(slice(number, number + 1)) for number in range(len(blocks)))
    torch.testing.assert_close(loss(slice(None)), parts, atol=1e-4, rtol=1e-4)
