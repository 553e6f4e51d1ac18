"""How long a block of random pieces trains on this machine's CPU, in each precision."""

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

SENTENCES = 12
LENGTH = 24
PIECES = 2_000
ROUNDS = 4
"""The fastest round counts. The first round also makes oneDNN's kernels."""
ENOUGH_S = 0.2
"""Once the rounds of a precision have taken this many seconds, two rounds are enough."""
CPU = torch.device("cpu")


def seconds_by_precision(config: TrialConfig) -> dict[str, float]:
    """CPU seconds of forward and backward through one layer of each kind, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {precision: _seconds(config, precision) for precision in get_args(Precision)}
    finally:
        torch.set_num_threads(threads)


def _seconds(config: TrialConfig, precision: Precision) -> float:
    """CPU seconds of the fastest round in this precision. The random state stays unchanged."""
    model = replace(config.model, n_layers=1, max_positions=LENGTH)
    train = replace(config.train, precision=precision)
    short_config = replace(config, model=model, train=train)
    with torch.random.fork_rng(devices=[]), efficient(model, precision, CPU):
        forward_backward = make_forward_backward(Transformer(model, PIECES), short_config)
        batch = _random_batch()
        times = list[float]()
        while len(times) < 2 or (len(times) < ROUNDS and sum(times) < ENOUGH_S):
            start = time.process_time()
            forward_backward(batch)
            times.append(time.process_time() - start)
    return min(times)


def _random_batch() -> Batch:
    """A batch of random pieces without padding; the decoder's input is the target itself."""
    source, target = torch.randint(PAD + 1, PIECES, (2, SENTENCES, LENGTH))
    pieces = target.numel()
    return Batch(
        source=source,
        shifted=target,
        target=target,
        total=torch.tensor(float(pieces)),
        total_targets=pieces,
        lengths=Lengths(),
        source_padded=False,
    )
