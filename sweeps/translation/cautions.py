"""Settings that are allowed but unlikely to be meant: a smoke run needs them, a study hardly does."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from transformer.config import TrialConfig
from transformer.data.corpora import corpus


def cautions(config: TrialConfig, prepared: Path) -> Iterator[str]:
    """One line per fault. ``prepared`` is the folder of the prepared text, if there is one."""
    train = config.train
    if train.warmup_steps > train.steps:
        share = f"{100 * train.steps / train.warmup_steps:.3g}% of its peak"
        found = f"train.warmup_steps is {train.warmup_steps}, but there are only {train.steps} steps"
        yield f"{found}; the learning rate only reaches {share}"
    tokens = _training_tokens(config, prepared)
    if tokens is not None and train.tokens_per_batch >= tokens:
        found = f"train.tokens_per_batch is {train.tokens_per_batch}, but the training text has {tokens} tokens"
        yield f"{found}; each step is a whole epoch"


def _training_tokens(config: TrialConfig, prepared: Path) -> int | None:
    """Of the longer side; from the corpus's declared size unless its text is prepared. None if it is unknown."""
    if prepared.is_dir():
        return _prepared_tokens(prepared)
    declared = corpus(config.data)
    return None if declared.train_pairs is None else round(declared.train_pairs * max(declared.mean_lengths))


@cache
def _prepared_tokens(folder: Path) -> int | None:
    """The last offset of the longer side, an int64 at the end of its file; None if the files are damaged."""
    try:
        files = [folder / f"train.{side}.offsets.npy" for side in ("source", "target")]
        return max(int.from_bytes(_end(file, 8), "little") for file in files)
    except OSError:  # refused when the text is opened
        return None


def _end(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(-size, os.SEEK_END)
        return file.read()
