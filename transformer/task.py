"""Translation, the task of the paper: Table 3 is a study of it. Its configuration lies in ``conf/`` itself.

Every command imports this: torch, NumPy and SentencePiece are imported inside the functions that need them.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sweeps.task import Costs, Keep, Numbers, PrecisionChoice, Problem, Task, Told, Trial, added_later
from transformer.card import CARD, words
from transformer.cautions import cautions
from transformer.config import SEMANTICS, TOKENS_PER_MICRO_BATCH, DataConfig, TrialConfig, sacrebleu_set
from transformer.cost import parameters, planned_lengths, training_flops, training_memory
from transformer.data.corpora import corpus
from transformer.data.vocabulary import OPTIONS
from transformer.decoding.tokenizer import model_faults
from transformer.verbs.evaluate import evaluate
from transformer.verbs.export import export
from transformer.verbs.models import as_problems, refusing
from transformer.verbs.translate import translate

BYTES_PER_PARAMETER = 12
"""Of a checkpoint: weights and Adam's two moments, 4 bytes each."""
PREPARATION = 1
"""Increased whenever a code change prepares the same text into different pieces."""


def _work(trial: Trial[TrialConfig]) -> None:
    from transformer.work import work

    work(trial)


def _data_problems(config: TrialConfig, prepared: Path | None) -> list[Problem]:
    """Prepared sentences that do not fit the model's positions; before that, files that are missing. At both times, a
    model for BLEU that cannot be fetched."""
    tokenizer = as_problems(model_faults(config.data.bleu_tokenizer))
    if prepared is None:
        return [*tokenizer, *as_problems(corpus(config.data).faults(config.data))]
    from transformer.data.prepared import Prepared, length_faults

    return [*tokenizer, *as_problems(length_faults(Prepared(prepared), config.model, config.data))]


@refusing()
def fingerprint(data: DataConfig) -> str:
    """SHA-256 of the current text's declaration, and of how it is prepared. It never covers the prepared output."""
    declares: dict[str, object] = {
        "corpus": {"name": data.name, **corpus(data).declared(data)},
        "languages": [data.source, data.target],
        "vocabulary": {"size": data.vocab_size, **OPTIONS},
        "preparation": PREPARATION,
    }
    options = {name: value for name, value in added_later(data).items() if name != "bleu_tokenizer"}  # it only scores
    if options:
        declares["options"] = options
    text = json.dumps(declares, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@refusing()
def _prepare(configs: Sequence[TrialConfig], folder: Path, told: Told) -> None:
    from transformer.data.prepared import prepare

    prepare(configs[0].data, folder, told)


def _texts(prepared: Path, set_name: str) -> Mapping[str, Sequence[str]]:
    from transformer.data.prepared import Prepared

    text = Prepared(prepared)
    if set_name not in text.evaluation_sets:
        return {}
    return {"source": text.sources(set_name), "reference": text.references(set_name)}


def _keep(config: TrialConfig) -> Keep:
    """The steps to average stay whatever ``keep_checkpoints`` is: that key only observes."""
    averaged = config.averaged_steps if config.decode.average_checkpoints > 1 else ()
    return Keep(config.train.keep_checkpoints, best=True, steps=averaged)


def _costs(config: TrialConfig) -> Costs:
    """FLOPs as if every batch were full and every sentence of the corpus's declared mean length."""
    train, size = config.train, config.data.vocab_size
    params = parameters(config.model, size)
    lengths = planned_lengths(train.tokens_per_batch, train.steps, *corpus(config.data).mean_lengths)
    return Costs(params, training_flops(config.model, size, lengths), BYTES_PER_PARAMETER * params * _kept(config))


def _seconds_by_precision(config: TrialConfig) -> Mapping[str, float]:
    from transformer.training.timed_precision import seconds_by_precision

    return seconds_by_precision(config)


def _memory(config: TrialConfig, device: str) -> float:
    train = config.train
    limit = train.tokens_per_micro_batch or TOKENS_PER_MICRO_BATCH[device]
    tokens = min(train.tokens_per_batch, limit)
    return training_memory(config.model, config.data.vocab_size, tokens, train.precision, device)


def _kept(config: TrialConfig) -> int:
    """How many checkpoints there are at the end, at least."""
    written = math.ceil(config.train.steps / config.train.checkpoint_every)
    return max(min(config.train.keep_checkpoints, written), config.decode.average_checkpoints)


def _diverged(config: TrialConfig, scores: Numbers) -> bool:
    """A dev NLL above that of a uniform guess, ln V; until the warm-up is over, above that of any untrained model.

    LayerNorm's output has the length √d_model and an embedding about 1, so √d_model bounds the untrained logits.
    """
    limit = math.log(config.data.vocab_size)
    if config.train.steps < config.train.warmup_steps:
        limit += math.sqrt(config.model.d_model)
    return bool(scores.get("dev/nll", 0.0) > limit)


def _resolved(config: TrialConfig, here: Path) -> TrialConfig:
    data = config.data
    train, dev, test = (_absolute_files(files, here) for files in (data.train, data.dev, data.test))
    mirror = data.mirror and _absolute(data.mirror, here)
    return replace(config, data=replace(data, mirror=mirror, train=train, dev=dev, test=test))


def _absolute_files(files: list[str] | None, here: Path) -> list[str] | None:
    """Where the files of a split lie; a set of sacreBLEU has its own place."""
    if files is None or sacrebleu_set(files) is not None:
        return files
    return [_absolute(name, here) for name in files]


def _absolute(name: str, here: Path) -> str:
    """Where a file or folder lies; a link that leads nowhere keeps its name for the refusal."""
    if "://" in name:
        return name
    path = here / os.path.expanduser(name)  # noqa: PTH111 - Path.expanduser raises for an unknown user
    there = os.path.exists(path)  # noqa: PTH110 - Path.exists raises for a name that is too long
    return str(path.resolve()) if there else os.path.abspath(path)  # noqa: PTH100 - follows no link


TRANSLATION = Task(
    "translation",
    version=SEMANTICS,
    schema=TrialConfig,
    metrics=CARD.metrics,
    steps=lambda config: config.train.steps,
    work=_work,
    problems=TrialConfig.problems,
    cautions=cautions,
    data_problems=_data_problems,
    title=lambda config: config.data.name,
    words=words,
    costs=_costs,
    precision=lambda config: config.train.precision,
    precision_choice=PrecisionChoice("train.precision", _seconds_by_precision),
    memory=_memory,
    costs_note="params and FLOPs are computed; FLOPs assume full batches of the corpus's mean length",
    keep=_keep,
    fingerprint=lambda config: fingerprint(config.data),
    prepare=_prepare,
    diverged=_diverged,
    texts=_texts,
    resolved=_resolved,
    watched={"train/loss": "loss", "train/tokens_per_s": "tokens/s"},
    card=CARD,
    verbs=(translate, evaluate, export),
)
