"""A trained model from the checkpoints of its trial, ready to translate."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from transformer.config import TrialConfig
from transformer.data.vocabulary import Vocabulary
from transformer.decoding.translate import Translator
from transformer.model.encoder_decoder import Transformer
from transformer.training.state import SavedState, fitting_weights


def load(config: TrialConfig, vocabulary: Vocabulary, states: Iterable[SavedState], device: torch.device) -> Translator:
    """A translator with the mean of these states, which are those of ``config.averaged_steps``. Raises MisfitError."""
    model = Transformer(config.model, len(vocabulary))
    model.load_state_dict(mean_weights(states, model))
    return Translator(model.to(device).eval(), vocabulary, config.decode, config.train.precision)


def mean_weights(states: Iterable[SavedState], model: nn.Module) -> dict[str, Tensor]:
    """The mean of the weights of at least one state (section 6.1); memory holds two at a time.

    Raises MisfitError unless each fits ``model``.
    """
    n, total = 0, dict[str, Tensor]()
    for saved in states:
        weights = fitting_weights(saved, model)
        total = {name: total[name] + weight if n else weight for name, weight in weights.items()}
        n += 1
    return {name: weight / n for name, weight in total.items()}
