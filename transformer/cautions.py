"""Cautions about a training: settings that are valid, but are rarely meant in a study."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from transformer.bleu_tokenizer import misfit
from transformer.config import CONVOLUTIONS, KERNEL, ModelConfig, TrialConfig
from transformer.data.corpora import corpus
from transformer.data.text_notes import caution as text_caution

MOST_EPOCHS = 200
PAPER_VOCABULARY = 37_000
"""Pieces of the paper's shared vocabulary (section 5.1)."""
PAPER_STEPS = 100_000
PAPER_SIZES = (6, 512, 2048)
"""N, d_model and d_ff of the paper's base (Table 3)."""


def cautions(config: TrialConfig, prepared: Path) -> Iterator[str]:
    """One line each. A smoke test may need such settings."""
    yield from _schedule_cautions(config)
    yield from _layer_cautions(config.model)
    yield from _epoch_cautions(config, prepared)
    yield from _vocabulary_cautions(config)
    if prepared.is_dir():
        yield from _text_cautions(prepared, config.data.bleu_tokenizer)


def _schedule_cautions(config: TrialConfig) -> Iterator[str]:
    train = config.train
    if train.warmup_steps > train.steps:
        share = f"{100 * train.steps / train.warmup_steps:.3g}% of its peak"
        warmup = f"train.warmup_steps is {train.warmup_steps}"
        fault = f"{warmup}, but there are only {train.steps} steps"
        yield f"{fault}; the learning rate only reaches {share}"


def _layer_cautions(model: ModelConfig) -> Iterator[str]:
    if model.encoder_layer in CONVOLUTIONS:
        return
    for name, value, neutral in (("kernel", model.kernel, KERNEL), ("dilation", model.dilation, 1)):
        if value != neutral:
            kinds = " or ".join(CONVOLUTIONS)
            fault = f"model.{name} is {value}, which changes no {model.encoder_layer} layer"
            yield f"{fault}; it needs model.encoder_layer={kinds}"


def _epoch_cautions(config: TrialConfig, prepared: Path) -> Iterator[str]:
    pairs, longest_side = _train_text(config, prepared)
    if not pairs:
        return
    tokens = pairs * longest_side
    # A batch holds no pair twice.
    steps_per_epoch = max(1.0, tokens / config.train.tokens_per_batch)
    epochs = config.train.steps / steps_per_epoch
    if epochs > MOST_EPOCHS:
        length = f"about {epochs:,.0f} epochs of {pairs:,} training pairs"
        fault = f"{config.train.steps} steps are {length}"
        yield f"{fault}; choose a smaller train.steps, another scale or a larger corpus"


def _train_text(config: TrialConfig, prepared: Path) -> tuple[int, float]:
    """The number of training pairs, 0 if unknown, and the mean pieces of their longer side."""
    if prepared.is_dir():
        try:
            _, longest = config.length_limit
            return _prepared_text(prepared, longest)
        except (OSError, ValueError):  # damaged: the preparation repairs or refuses it
            pass
    source = corpus(config.data)
    return source.train_pairs(config.data), max(source.mean_lengths)


@cache
def _prepared_text(prepared: Path, longest: int) -> tuple[int, float]:
    """The same numbers of the pairs with at most ``longest`` pieces on a side, in prepared text.

    Raises OSError or ValueError.
    """
    from transformer.data.prepared import Prepared

    sides = Prepared(prepared).pairs("train").longest_sides
    fitting = sides[sides <= longest]
    return len(fitting), float(fitting.mean()) if len(fitting) else 0.0


def _vocabulary_cautions(config: TrialConfig) -> Iterator[str]:
    model = config.model
    vocabulary = config.data.vocab_size
    has_paper_sizes = (model.n_layers, model.d_model, model.d_ff) == PAPER_SIZES
    is_of_paper = has_paper_sizes or config.train.steps >= PAPER_STEPS
    if is_of_paper and vocabulary != PAPER_VOCABULARY:
        text = f"data.vocab_size is {vocabulary} for the text {config.data.name}"
        of_paper = f"{PAPER_VOCABULARY} pieces of WMT 2014, shared by both languages"
        yield f"this is the paper's scale, but {text}; the paper has {of_paper}"


@cache
def _text_cautions(prepared: Path, tokenizer: str) -> tuple[str, ...]:
    """On pairs that are odd, and on a tokenizer of BLEU that does not fit their script.

    All trials of a plan ask for them. Damaged text has none: the preparation repairs or refuses it.
    """
    from transformer.data.prepared import Prepared

    with suppress(OSError, ValueError, TypeError, KeyError):
        notes = (text_caution(prepared), misfit(tokenizer, Prepared(prepared).references("dev")))
        return tuple(note for note in notes if note is not None)
    return ()
