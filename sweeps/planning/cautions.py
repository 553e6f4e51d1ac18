"""Settings that are allowed but unlikely to be meant: a smoke run needs them, a study hardly does."""

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.planning.settings import Settings
from transformer.data.corpora import corpus
from transformer.data.fingerprint import prepared_folder


def cautions(plan: Plan) -> Iterator[str]:
    """One line per fault, with the trials that have it."""
    for fault in (_long_warmup, _large_batch):
        yield from _grouped(plan, fault)


def _grouped(plan: Plan, fault: Callable[[PlannedTrial], str | None]) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for planned in plan.pending:
        if line := fault(planned):
            found.setdefault(line, []).append(planned.trial.name)
    for line, names in found.items():
        others = f" and {len(names) - 1} more" * (len(names) > 1)
        yield f"{names[0]}{others}: {line}"


def _long_warmup(planned: PlannedTrial) -> str | None:
    train = planned.settings.train
    if train.warmup_steps < train.steps:
        return None
    share = f"{train.steps / train.warmup_steps:.0%} of its peak"
    return f"train.warmup_steps is {train.warmup_steps} in {train.steps} steps; the learning rate only reaches {share}"


def _large_batch(planned: PlannedTrial) -> str | None:
    settings = planned.settings
    batch, tokens = settings.train.tokens_per_batch, _training_tokens(settings, planned.fingerprint)
    if tokens is None or batch < tokens:
        return None
    return f"train.tokens_per_batch is {batch}, but the training text has {tokens} tokens; each step is a whole epoch"


def _training_tokens(settings: Settings, fingerprint: str) -> int | None:
    """Of the longer side; from the corpus's declared size unless its text is prepared. None if it is unknown."""
    folder = prepared_folder(Path(settings.paths.data), fingerprint)
    if folder.is_dir():
        return _prepared_tokens(folder)
    declared = corpus(settings.data)
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
