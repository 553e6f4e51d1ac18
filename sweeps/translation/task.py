"""Translation, the task of the paper: Table 3 is a study of it. Its configuration lies in ``conf/`` itself."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sweeps.task import Costs, Preparation, Problem, Task
from sweeps.translation.cautions import cautions
from sweeps.translation.preparation import known_vocabulary, prepare_text, sample_texts
from sweeps.translation.words import described
from tracking.translation_card import TRANSLATION as CARD
from transformer.config import SEMANTICS, TrialConfig
from transformer.cost import parameters, planned_lengths, training_flops
from transformer.data.corpora import corpus
from transformer.data.fingerprint import fingerprint, prepared_folder

BYTES_PER_PARAMETER = 12
"""Of a checkpoint: weights and Adam's two moments, 4 bytes each."""


def _costs(config: TrialConfig) -> Costs:
    """FLOPs as if every batch were full and every sentence of the corpus's declared mean length."""
    train, size = config.train, config.data.vocab_size
    params = parameters(config.model, size)
    lengths = planned_lengths(train.tokens_per_batch, train.steps, *corpus(config.data).mean_lengths)
    kept = min(train.keep_checkpoints, train.checkpoints_written)
    return Costs(params, training_flops(config.model, size, lengths), BYTES_PER_PARAMETER * params * kept)


def _resolved(config: TrialConfig, here: Path) -> TrialConfig:
    data = config.data
    train, dev, test = (_files(files, here) for files in (data.train, data.dev, data.test))
    mirror = data.mirror and (data.mirror if "://" in data.mirror else os.path.realpath(here / _at_home(data.mirror)))
    return replace(config, data=replace(data, mirror=mirror, train=train, dev=dev, test=test))


def _files(names: list[str] | None, here: Path) -> list[str] | None:
    return names and [_absolute_file(name, here) for name in names]


def _absolute_file(name: str, here: Path) -> str:
    """Where the file lies; a link that leads to no file, and a pipe, keep their names for the refusal."""
    if "://" in name:
        return name
    path = here / _at_home(name)
    return str(path.resolve()) if path.is_file() else os.path.abspath(path)  # noqa: PTH100 - follows no link


def _at_home(text: str) -> str:
    return os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises for an unknown user


def _data_problems(config: TrialConfig) -> Iterable[Problem]:
    return corpus(config.data).problems(config.data)


TRANSLATION = Task(
    "translation",
    version=SEMANTICS,
    schema=TrialConfig,
    metrics=CARD.metrics,
    card=CARD,
    watched={"train/loss": "loss", "train/tokens_per_s": "tokens/s"},
    steps=lambda config: config.train.steps,
    problems=TrialConfig.problems,
    cautions=cautions,
    data_problems=_data_problems,
    described=described,
    title=lambda config: config.data.name,
    costs=_costs,
    costs_note="params and FLOPs are computed; FLOPs assume full batches of the corpus's mean length",
    fingerprint=lambda config: fingerprint(config.data),
    preparation=Preparation(prepare_text, known_vocabulary, prepared_folder),
    sample_texts=sample_texts,
    resolved=_resolved,
    worker="sweeps.translation.worker:work",
)
