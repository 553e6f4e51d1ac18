"""One trial from its configuration to its scores, as one worker of its group runs it."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from sweeps.task import NO_TEXTS, Costs, DivergedError, Trained, Trial
from transformer.config import TRAIN_SAMPLE, TrialConfig
from transformer.cost import parameters, training_flops
from transformer.data.batches import TrainingBatches
from transformer.data.prepared import PairCounts, Prepared
from transformer.decoding.evaluation import EvaluationSet, evaluate_set, greedy_scores
from transformer.decoding.tokenizer import check_tokenizer
from transformer.decoding.translator import Translator
from transformer.faults import NotFiniteError, sentences_of
from transformer.pictures.choice import choose
from transformer.pictures.picture import read_picture
from transformer.training.meter import rates
from transformer.training.precision import check_precision, efficient
from transformer.training.state import TrainState, compare, mean_weights, start
from transformer.training.train import fit
from transformer.training.worker_group import (
    StopRequested,
    Worker,
    pick_device,
    tokens_per_micro_batch,
)


def work(trial: Trial[TrialConfig]) -> None:
    """Train, then score each set. A stop request ends it earlier.

    Raises StateError, MissingStepError, DisagreementError, DivergedError, FaultyError.
    """
    check_tokenizer(trial.config.data.bleu_tokenizer)  # before training, not after it
    torch.set_num_threads(trial.threads)
    with trial.process_group():
        _train_and_score(trial)


def worker_of(trial: Trial[TrialConfig]) -> Worker:
    """This process as a worker of the trial, on its device."""
    device = pick_device()
    return Worker(
        rank=trial.rank,
        world=trial.world,
        device=device,
        tokens_per_micro_batch=tokens_per_micro_batch(trial.config.train, device),
        stop=partial(trial.stopping, alone=True),
    )


def _train_and_score(trial: Trial[TrialConfig]) -> None:
    """Train from the start or the last checkpoint; after the last step, score.

    Raises StateError, DisagreementError, DivergedError.
    """
    config = trial.config
    worker = worker_of(trial)
    prepared = Prepared(trial.data)
    check_precision(config.train.precision, worker.device)
    with efficient(config.model, config.train.precision, worker.device):
        state = start(config, len(prepared.vocabulary), worker.device)
        if trial.saved is not None:
            state.load(trial.saved)
        compare(state, worker)
        try:
            _train(trial, state, prepared, worker)
            if state.step == config.train.steps:
                trial.spent(_costs(state, config))
                _score(trial, state, prepared, worker)
        except NotFiniteError as error:
            raise DivergedError(str(error), state.step) from error


def _train(
    trial: Trial[TrialConfig],
    state: TrainState,
    prepared: Prepared,
    worker: Worker,
) -> None:
    """Train to the last step, or until a stop request."""
    config = trial.config
    train = config.train
    pairs = prepared.pairs("train")
    model = config.model
    batches = TrainingBatches(
        pairs,
        train.tokens_per_batch,
        model.max_positions,
        train.seed,
        train.longest,
        model.attention_radius,
    )
    counts = PairCounts(len(batches.chosen), prepared.blank, batches.dropped)
    _report_provenance(trial, prepared, counts, rates(worker, config))
    score = partial(greedy_scores, config, prepared, worker) if train.score_every else None
    fit(state, trial, batches, prepared.pairs("dev"), worker, score)


def _report_provenance(
    trial: Trial[TrialConfig],
    prepared: Prepared,
    counts: PairCounts,
    device_rates: Mapping[str, float],
) -> None:
    """Record the vocabulary, the training pairs and the devices' FLOP/s; notify of unused pairs."""
    provenance: dict[str, Any] = {
        "vocabulary": prepared.vocabulary_sha256,
        "pairs": asdict(counts),
    }
    if device_rates:
        provenance["flops_per_s"] = device_rates
    trial.about(provenance)
    if trial.saved is None:  # once per trial
        for line in counts.notices(*trial.config.length_limit):
            trial.notice(line)


def _costs(state: TrainState, config: TrialConfig) -> Costs:
    """Parameters of the model, and FLOPs of the steps so far."""
    vocab_size = state.model.vocab_size
    flops = training_flops(config.model, vocab_size, state.lengths)
    return Costs(parameters(config.model, vocab_size), flops)


def _score(
    trial: Trial[TrialConfig],
    state: TrainState,
    prepared: Prepared,
    worker: Worker,
) -> None:
    """Evaluate each set without scores, until a stop request; the workers share each set."""
    config = trial.config
    model = state.model
    set_names = list(prepared.evaluation_sets)
    if config.decode.train_sample:
        set_names.append(TRAIN_SAMPLE)
    unscored = [name for name in set_names if name not in trial.scored]
    if unscored and config.decode.average_checkpoints > 1:
        model.load_state_dict(mean_weights(trial.states(config.averaged_steps), model))
    translator = Translator(
        model.eval(),
        prepared.vocabulary,
        config.decode,
        config.train.precision,
    )
    texts = _pictures(config, translator, worker) if unscored else {}
    for name in unscored:
        try:
            sentences = EvaluationSet.of(prepared, name, config)
            score_set(trial, name, sentences, translator, worker, texts)
        except StopRequested:
            return
        texts = {}


def _pictures(config: TrialConfig, translator: Translator, worker: Worker) -> dict[str, str]:
    """The picture of ``train.pictured_sentence``, by its path in the trial's folder.

    Only rank zero draws it. Raises NotFiniteError.
    """
    sentence = config.train.pictured_sentence
    if sentence is None or not worker.is_rank_zero:
        return {}
    with sentences_of("train.pictured_sentence"):
        picture = read_picture(translator, choose(config.model), sentence)
    return {"pictures/attention.svg": picture.content(".svg").decode()}


def score_set(
    trial: Trial[TrialConfig] | Trained[TrialConfig],
    name: str,
    sentences: EvaluationSet,
    translator: Translator,
    worker: Worker,
    texts: Mapping[str, str] = NO_TEXTS,
) -> None:
    """Evaluate a set on every worker, and store the result of rank zero under the set's name.

    ``texts`` are stored with it.

    Raises StopRequested, NotFiniteError.
    """
    evaluation = evaluate_set(translator, sentences, worker)
    if evaluation is not None:
        all_texts = {**evaluation.texts, **texts}
        trial.evaluated(name, evaluation.scores, all_texts, evaluation.samples)
