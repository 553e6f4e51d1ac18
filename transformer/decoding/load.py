"""A trained model from the checkpoints of its trial, ready to translate."""

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sweeps.task import Problem, RefusedError
from transformer.config import TrainConfig, TrialConfig
from transformer.data.vocabulary import Vocabulary
from transformer.decoding.translate import Translator
from transformer.model.encoder_decoder import Transformer
from transformer.training.checkpoint import Checkpoints
from transformer.training.checkpoint_files import SavedState
from transformer.training.checkpoint_folder import StateCheck
from transformer.training.saved_state import check_weights


def load(
    trial: TrialConfig, vocabulary: Vocabulary, checkpoints: Checkpoints, step: int, device: torch.device
) -> Translator:
    """A translator with the mean of the newest ``trial.decode.average_checkpoints`` checkpoints up to ``step``.

    All must be complete and fit the model. Raises RefusedError.
    """
    model = Transformer(trial.model, len(vocabulary))
    model.load_state_dict(mean_of_newest(trial, checkpoints, step, partial(check_weights, model=model)))
    return Translator(model.to(device).eval(), vocabulary, trial.decode, trial.train.precision)


def mean_of_newest(trial: TrialConfig, checkpoints: Checkpoints, step: int, check: StateCheck) -> dict[str, Tensor]:
    """The mean of the weights at ``step`` and at the earlier steps that an uninterrupted training saves.

    All ``trial.decode.average_checkpoints`` of them must be complete and fit; an older one never replaces another.
    Raises RefusedError.
    """
    return mean_weights(_newest(trial, checkpoints, step, check))


def mean_weights(states: Iterable[dict[str, Any]]) -> dict[str, Tensor]:
    """The mean model of at least one checkpoint (section 6.1); memory holds two at a time."""
    total: dict[str, Tensor] = {}
    n = 0
    for state in states:
        total = {name: total[name] + weight if n else weight for name, weight in state["model"].items()}
        n += 1
    return {name: weight / n for name, weight in total.items()}


def _newest(trial: TrialConfig, checkpoints: Checkpoints, step: int, check: StateCheck) -> Iterator[SavedState]:
    """The newest ``decode.average_checkpoints`` states, starting with that of ``step``. Raises RefusedError."""
    newest = next(checkpoints.at([step], check), None)
    if newest is None:
        allowed = f"must be complete in {checkpoints.folder.url}, where it was written"
        raise RefusedError([Problem("TRIAL", _missing(step, checkpoints), allowed)])
    n, steps = trial.decode.average_checkpoints, _regular_steps(trial.train, newest)
    yield newest
    del newest  # it may be large
    found = 1
    for state in checkpoints.at(steps[1:n], check):
        yield state
        found += 1
    if found < n:
        cause = f": {_missing(steps[found], checkpoints)}" if found < len(steps) else ""
        allowed = f"must be at most {found}, the number of checkpoints kept{cause}"
        raise RefusedError([Problem("decode.average_checkpoints", f"is {n}", allowed)])


def _regular_steps(train: TrainConfig, state: SavedState) -> list[int]:
    """The state's step, then the earlier steps at which an uninterrupted training saves, newest first.

    They include the steps with the best dev scores so far, taken from the state's reports.
    """
    best, steps = math.inf, set(train.checkpoint_steps(state["step"]))
    for report in state.get("reports", ()):
        nll = report["metrics"].get("dev/nll", math.inf)
        if nll < best:
            best = nll
            steps.add(report["step"])
    return sorted(steps, reverse=True)


def _missing(step: int, checkpoints: Checkpoints) -> str:
    damage = "".join(f" ({line})" for line in checkpoints.passed_over if f"/step-{step}: " in line)
    return f"the checkpoint of step {step} is missing{damage}"
