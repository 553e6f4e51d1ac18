"""Translation, the task of the paper, whose Table 3 is a study. Its configuration is in ``conf/``.

Every command imports this module, so functions that need torch, NumPy or SentencePiece import them.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sweeps.task import (
    Costs,
    Keep,
    Numbers,
    PrecisionChoice,
    Problem,
    Task,
    Told,
    Trial,
    added_later,
)
from transformer.card import CARD, words
from transformer.cautions import cautions
from transformer.config import (
    SEMANTICS,
    TOKENS_PER_MICRO_BATCH,
    TOKENS_PER_SEARCH,
    DataConfig,
    TrialConfig,
    sacrebleu_set,
)
from transformer.cost import (
    MicroBatch,
    decoding_memory,
    parameters,
    planned_lengths,
    training_flops,
    training_memory,
)
from transformer.data.blocks import blocks_per_batch
from transformer.data.corpora import corpus
from transformer.data.vocabulary import OPTIONS
from transformer.decoding.tokenizer import model_faults
from transformer.pictures.text import pictured_faults
from transformer.verbs.attention import attention
from transformer.verbs.evaluate import evaluate
from transformer.verbs.export import export
from transformer.verbs.models import as_problems, refusing
from transformer.verbs.translate import translate

BYTES_PER_PARAMETER = 12
"""Bytes of a checkpoint per parameter: the weight and Adam's two moments, 4 bytes each."""
JOINED_PADDING = 4
"""Where a GPU joins the blocks of a batch: its sentences × the longest of them, by its tokens.

At most 3.7 in four epochs of Multi30k with 4 000 tokens.
"""
PREPARATION = 1
"""Increased whenever a code change prepares the same text into different pieces."""


def _work(trial: Trial[TrialConfig]) -> None:
    from transformer.work import work

    work(trial)


def _data_problems(config: TrialConfig, prepared: Path | None) -> list[Problem]:
    """A BLEU model that cannot be fetched, and text that cannot be used.

    Without prepared text, these are files that are missing; with it, sentences that do not fit the
    model's positions, among them the one to draw.
    """
    faults = list(model_faults(config.data.bleu_tokenizer))
    if prepared is None:
        faults += corpus(config.data).faults(config.data)
    else:
        from transformer.data.prepared import Prepared, length_faults

        text = Prepared(prepared)
        faults += length_faults(text, config)
        if config.train.pictured_sentence is not None:
            faults += pictured_faults(text.vocabulary, config)
    return as_problems(faults)


@refusing()
def fingerprint(data: DataConfig) -> str:
    """SHA-256 of the text's declaration and its preparation. It never covers the prepared output.

    Raises RefusedError.
    """
    declares: dict[str, object] = {
        "corpus": {"name": data.name, **corpus(data).declared(data)},
        "languages": [data.source, data.target],
        "vocabulary": {"size": data.vocab_size, **OPTIONS},
        "preparation": PREPARATION,
    }
    options = dict(added_later(data))
    options.pop("bleu_tokenizer", None)  # it changes scores, but no prepared text
    if options:
        declares["options"] = options
    text = json.dumps(declares, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@refusing()
def _prepare(configs: Sequence[TrialConfig], folder: Path, report: Told) -> None:
    """Prepare the text of these trials, which is the same for all. Raises RefusedError."""
    from transformer.data.prepared import prepare

    prepare(configs[0].data, folder, report)


def _texts(prepared: Path, set_name: str) -> Mapping[str, Sequence[str]]:
    """The lines of a set of the data, as "source" and "reference"; empty for any other set."""
    from transformer.data.prepared import Prepared

    text = Prepared(prepared)
    if set_name not in text.evaluation_sets:
        return {}
    return {"source": text.sources(set_name), "reference": text.references(set_name)}


def _keep(config: TrialConfig) -> Keep:
    """The checkpoints to keep.

    Checkpoints to average stay for any ``keep_checkpoints``, which must not change a result. The
    checkpoint of a stop takes the place of none, so that they can be averaged later.
    """
    train = config.train
    averaged_steps = config.averaged_steps if config.decode.average_checkpoints > 1 else ()
    return Keep(
        train.keep_checkpoints, best=True, steps=averaged_steps, every=train.checkpoint_every
    )


def _costs(config: TrialConfig) -> Costs:
    """Parameters, FLOPs and bytes on disk of a trial before it starts.

    FLOPs assume full batches, and sentences of the corpus's declared mean length. If training
    leaves out pairs longer than a shorter limit, they assume that limit.
    """
    train = config.train
    vocab_size = config.data.vocab_size
    params = parameters(config.model, vocab_size)
    _, longest = config.length_limit
    mean_source, mean_target = (min(mean, longest) for mean in corpus(config.data).mean_lengths)
    radius = config.model.attention_radius
    lengths = planned_lengths(train.tokens_per_batch, train.steps, mean_source, mean_target, radius)
    flops = training_flops(config.model, vocab_size, lengths)
    disk_bytes = BYTES_PER_PARAMETER * params * _least_checkpoints(config)
    return Costs(params, flops, disk_bytes)


def _seconds_by_precision(config: TrialConfig) -> Mapping[str, float]:
    from transformer.training.timed_precision import seconds_by_precision

    return seconds_by_precision(config)


def _pace(config: TrialConfig) -> str:
    """Additive scores take several times as long as the products that a plan counts."""
    return "additive scores" if config.model.attention_score == "additive" else ""


def _memory(config: TrialConfig, device: str) -> float:
    """Bytes of a worker that trains and then scores."""
    model = config.model
    vocab_size = config.data.vocab_size
    precision = config.train.precision
    length = max(corpus(config.data).mean_lengths)
    batch = MicroBatch(_micro_batch_tokens(config, device), length)
    searched = MicroBatch(TOKENS_PER_SEARCH[device], length)
    return max(
        training_memory(model, vocab_size, batch, precision, device),
        decoding_memory(model, vocab_size, searched, config.decode, precision, device),
    )


def _micro_batch_tokens(config: TrialConfig, device: str) -> int:
    """Tokens of the largest micro-batch: those of a block, or with padding of a joined batch."""
    train = config.train
    limit = train.tokens_per_micro_batch or TOKENS_PER_MICRO_BATCH[device]
    joined = JOINED_PADDING * train.tokens_per_batch
    if device == "cuda" and joined <= limit:
        return joined
    blocks = blocks_per_batch(train.tokens_per_batch, config.model.max_positions)
    return min(train.tokens_per_batch // blocks, limit)


def _least_checkpoints(config: TrialConfig) -> int:
    """The least number of checkpoints that a finished trial holds."""
    written = math.ceil(config.train.steps / config.train.checkpoint_every)
    return max(min(config.train.keep_checkpoints, written), config.decode.average_checkpoints)


def _diverged(config: TrialConfig, scores: Numbers) -> bool:
    """Whether the dev NLL is above that of a uniform guess, ln V.

    If training ends during the warm-up, the limit is that of any untrained model. LayerNorm's
    output has the length √d_model, an embedding about 1, so √d_model bounds the untrained logits.
    """
    limit = math.log(config.data.vocab_size)
    if config.train.steps < config.train.warmup_steps:
        limit += math.sqrt(config.model.d_model)
    return bool(scores.get("dev/nll", 0.0) > limit)


def _resolved(config: TrialConfig, folder: Path) -> TrialConfig:
    """The configuration with absolute paths; relative paths start at ``folder``."""
    data = replace(
        config.data,
        mirror=config.data.mirror and _absolute(config.data.mirror, folder),
        train=_absolute_files(config.data.train, folder),
        dev=_absolute_files(config.data.dev, folder),
        test=_absolute_files(config.data.test, folder),
    )
    return replace(config, data=data)


def _absolute_files(names: list[str] | None, folder: Path) -> list[str] | None:
    """The absolute paths of a split's files; a set of sacreBLEU has its own place."""
    if names is None or sacrebleu_set(names) is not None:
        return names
    return [_absolute(name, folder) for name in names]


def _absolute(name: str, folder: Path) -> str:
    """The absolute path of a file or folder; a URL stays as it is.

    A broken link keeps its own name, which the refusal then shows.
    """
    if "://" in name:
        return name
    path = folder / os.path.expanduser(name)  # noqa: PTH111 - Path's raises for an unknown user
    if os.path.exists(path):  # noqa: PTH110 - Path's raises for a name that is too long
        return str(path.resolve())
    return os.path.abspath(path)  # noqa: PTH100 - follows no link


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
    pace=_pace,
    costs_note=(
        "params and FLOPs are computed; FLOPs assume full batches of the corpus's mean length"
    ),
    keep=_keep,
    fingerprint=lambda config: fingerprint(config.data),
    prepare=_prepare,
    diverged=_diverged,
    texts=_texts,
    resolved=_resolved,
    watched={"train/loss": "loss", "train/tokens_per_s": "tokens/s"},
    card=CARD,
    verbs=(translate, evaluate, export, attention),
)
