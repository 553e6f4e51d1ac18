"""A trained model from the checkpoints of its trial, ready to translate."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from transformer.config import TrialConfig
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
    """The mean of the ``trial.decode.average_checkpoints`` newest checkpoints up to ``step``, which must be there, whole and fit.

    ``check`` is asked besides whether the weights fit the model. Raises RefusedError.
    """
    model = Transformer(trial.model, len(vocabulary))

    def fits(state: SavedState) -> None:
        check_weights(state, model)
        check(state)

    states = checkpoints.last(trial.decode.average_checkpoints, up_to=step, check=fits)
    model.load_state_dict(mean_weights(_newest(states, checkpoints, step, trial.decode.average_checkpoints)))
    return Translator(model.to(device).eval(), vocabulary, trial.decode, trial.train.precision)


def mean_weights(states: Iterable[dict[str, Any]]) -> dict[str, Tensor]:
    """The mean of the models of at least one checkpoint (section 6.1), two of which are held at a time."""
    total: dict[str, Tensor] = {}
    n = 0
    for state in states:
        total = {name: total[name] + weight if n else weight for name, weight in state["model"].items()}
        n += 1
    return {name: weight / n for name, weight in total.items()}


def _newest(states: Iterator[dict[str, Any]], checkpoints: Checkpoints, step: int, n: int) -> Iterator[dict[str, Any]]:
    """The states, which must begin with that of ``step`` and be ``n``."""
    found = 0
    for state in states:
        if found == 0 and state["step"] < step:
            break
        yield state
        found += 1
    if found == n:
        return
    if found == 0:
        damage = "".join(f" ({line})" for line in checkpoints.passed_over)
        allowed = f"must lie whole in {checkpoints.folder.url}, where it was written"
        raise RefusedError([Problem("TRIAL", f"the checkpoint of step {step} is missing{damage}", allowed)])
    allowed = f"must be at most {found}, the checkpoints that were kept"
    raise RefusedError([Problem("decode.average_checkpoints", f"is {n}", allowed)])
