"""Resumes an attempt: rank zero reads the checkpoint, and all workers start with the same state."""

import hashlib
from functools import partial

from transformer.training.broadcast import as_bytes, from_rank_zero, tensors_of
from transformer.training.checkpoint import Checkpoints
from transformer.training.checkpoint_files import SavedState
from transformer.training.parallel import Worker
from transformer.training.saved_state import check_state
from transformer.training.train import TrainState

DIGITS = 12  # of a digest, in a message


class DisagreementError(Exception):
    """The workers of a trial start from different states: the state of each rank, in one line."""


def resume(state: TrainState, steps: int, checkpoints: Checkpoints, worker: Worker, run: str = "") -> bool:
    """Own the checkpoints, and load the newest fitting one of earlier attempts; returns whether one was found.

    Only rank zero reads the checkpoints. Raises DisagreementError, SupersededError.
    """
    check = partial(check_state, model=state.model, steps=steps)

    def newest() -> SavedState | None:
        checkpoints.claim(run)
        return checkpoints.newest(check)

    saved = from_rank_zero(worker, newest)
    if saved is not None:
        state.load(saved)
    compare(state, worker)
    return saved is not None


def compare(state: TrainState, worker: Worker) -> None:
    """Raises DisagreementError unless all workers hold the same step, weights and moments, bit for bit."""
    if worker.world == 1:
        return
    held = worker.gather((state.step, digest(state)))
    if len(set(held)) > 1:
        ranks = ", ".join(f"rank {rank} step {step} ({sha[:DIGITS]})" for rank, (step, sha) in enumerate(held))
        fix = "give all workers the same code, packages and kind of device"
        raise DisagreementError(f"the workers start from different states: {ranks}; {fix}")


def digest(state: TrainState) -> str:
    """SHA-256 of weights and moments with their names, shapes and types; takes about a second per gigabyte."""
    sha256, saved = hashlib.sha256(), state.to_dict()
    for name, tensor in tensors_of([saved["model"], saved["optimizer"]["state"]]):
        sha256.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sha256.update(as_bytes(tensor).cpu().numpy().data)
    return sha256.hexdigest()
