"""A trained model from the checkpoints of its trial, ready to translate."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from transformer.config import TrainConfig, TrialConfig
from transformer.data.vocabulary import Vocabulary
from transformer.decoding.translate import Translator
from transformer.model.encoder_decoder import Transformer
from transformer.schema import Problem, RefusedError
from transformer.training.checkpoint import Checkpoints
from transformer.training.checkpoint_files import SavedState
from transformer.training.checkpoint_folder import StateCheck, any_state
from transformer.training.saved_state import check_weights


def load(
    trial: TrialConfig,
    vocabulary: Vocabulary,
    checkpoints: Checkpoints,
    step: int,
    device: torch.device,
    check: StateCheck = any_state,
) -> Translator:
    """The mean of the newest ``trial.decode.average_checkpoints`` checkpoints up to ``step``, all whole and fitting.

    ``check`` is asked besides whether the weights fit the model. Raises RefusedError.
    """
    model = Transformer(trial.model, len(vocabulary))

    def fits(state: SavedState) -> None:
        check_weights(state, model)
        check(state)

    model.load_state_dict(mean_of_newest(trial, checkpoints, step, fits))
    return Translator(model.to(device).eval(), vocabulary, trial.decode, trial.train.precision)


def mean_of_newest(
    trial: TrialConfig, checkpoints: Checkpoints, step: int, check: StateCheck = any_state
) -> dict[str, Tensor]:
    """The mean of the weights at ``step`` and at the steps before it that an undisturbed training saves.

    All ``trial.decode.average_checkpoints`` of them must be whole and fit: none is replaced by an older one.
    Raises RefusedError.
    """
    return mean_weights(_newest(trial, checkpoints, step, check))


def mean_weights(states: Iterable[dict[str, Any]]) -> dict[str, Tensor]:
    """The mean of the models of at least one checkpoint (section 6.1), two of which are held at a time."""
    total: dict[str, Tensor] = {}
    n = 0
    for state in states:
        total = {name: total[name] + weight if n else weight for name, weight in state["model"].items()}
        n += 1
    return {name: weight / n for name, weight in total.items()}


def _newest(trial: TrialConfig, checkpoints: Checkpoints, step: int, check: StateCheck) -> Iterator[SavedState]:
    """As many states as ``decode.average_checkpoints`` says, from that of ``step`` on. Raises RefusedError."""
    newest = next(checkpoints.at([step], check), None)
    if newest is None:
        allowed = f"must lie whole in {checkpoints.folder.url}, where it was written"
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
        allowed = f"must be at most {found}, the checkpoints that were kept{cause}"
        raise RefusedError([Problem("decode.average_checkpoints", f"is {n}", allowed)])


def _regular_steps(train: TrainConfig, state: SavedState) -> list[int]:
    """The step of the state, then the earlier ones at which an undisturbed training saves, newest first.

    The steps at which dev was best are among them: the state's reports tell which.
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
