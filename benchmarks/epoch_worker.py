"""Trains one step per line of its input, with the code on PYTHONPATH: ``epoch_worker.py JOB``.

JOB holds a pickled trial, the size of its vocabulary, and its text. For each step it prints CPU
seconds, loss, and the resident bytes of this process. It uses only what older checkouts have, too.
"""

import os
import pickle
import sys
from pathlib import Path
from time import process_time

import torch

from transformer.data.batches import TrainingBatches
from transformer.training.precision import efficient
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

TOKENS_PER_MICRO_BATCH = 25_000


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    torch.set_num_threads(1)
    trial, vocab_size, pairs = pickle.loads(Path(sys.argv[1]).read_bytes())
    train = trial.train
    batches = TrainingBatches(pairs, train.tokens_per_batch, trial.model.max_positions, train.seed)
    worker = Worker()
    with efficient(trial.model, train.precision, worker.device):
        state = start(trial, vocab_size, worker.device)
        state.model.train()
        forward_backward = make_forward_backward(state.model, trial)
        for step, _ in enumerate(sys.stdin, start=1):
            blocks = batches.micro_batches(step, 0, 1, TOKENS_PER_MICRO_BATCH)
            began = process_time()
            result = train_step(state, blocks, trial, worker, forward_backward)
            seconds = process_time() - began
            print(seconds, float(result.loss), resident_bytes(), flush=True)


if __name__ == "__main__":
    main()
