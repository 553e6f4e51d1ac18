"""How long a model of some sizes trains in each precision on this machine's CPU, by one short block of drawn pieces."""

import time
from dataclasses import replace
from typing import get_args

import torch

from transformer.config import Precision, TrialConfig
from transformer.cost import Lengths
from transformer.data.batches import Batch
from transformer.data.vocabulary import PAD
from transformer.model.encoder_decoder import Transformer
from transformer.training.precision import efficient
from transformer.training.train import make_forward_backward

SENTENCES, LENGTH = 12, 24
PIECES = 2_000
ROUNDS = 4
"""The fastest one counts. The first one also makes oneDNN's kernels."""
ENOUGH_S = 0.2
"""After so many seconds two rounds of a precision are enough."""
CPU = torch.device("cpu")


def seconds_by_precision(config: TrialConfig) -> dict[str, float]:
    """CPU seconds of a forward and backward pass of one layer each, in this process's only thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {precision: _seconds(config, precision) for precision in get_args(Precision)}
    finally:
        torch.set_num_threads(threads)


def _seconds(config: TrialConfig, precision: Precision) -> float:
    sizes = replace(config.model, n_layers=1, max_positions=LENGTH)
    short = replace(config, model=sizes, train=replace(config.train, precision=precision))
    with torch.random.fork_rng(devices=[]), efficient(sizes, precision, CPU):
        forward_backward = make_forward_backward(Transformer(sizes, PIECES), short)
        batch = _drawn_batch()
        times = list[float]()
        while len(times) < 2 or (len(times) < ROUNDS and sum(times) < ENOUGH_S):
            began = time.process_time()
            forward_backward(batch)
            times.append(time.process_time() - began)
    return min(times)


def _drawn_batch() -> Batch:
    source, target = torch.randint(PAD + 1, PIECES, (2, SENTENCES, LENGTH))
    pieces = target.numel()
    return Batch(source, target, target, torch.tensor(float(pieces)), pieces, Lengths(), source_padded=False)
