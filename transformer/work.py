"""One trial from its configuration to its scores, as one worker of its group runs it."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial

import torch

from sweeps.task import Costs, DivergedError, Trained, Trial
from transformer.config import TRAIN_SAMPLE, TrialConfig
from transformer.cost import parameters, training_flops
from transformer.data.batches import TrainingBatches
from transformer.data.prepared import PairCounts, Prepared
from transformer.decoding.evaluation import EvaluationSet, evaluate_set, greedy_scores
from transformer.decoding.tokenizer import check_tokenizer
from transformer.decoding.translator import Translator
from transformer.faults import NotFiniteError
from transformer.training.meter import rates
from transformer.training.precision import check_precision, efficient
from transformer.training.state import TrainState, compare, mean_weights, start
from transformer.training.train import fit
from transformer.training.worker_group import StopRequested, Worker, pick_device, tokens_per_micro_batch


def work(trial: Trial[TrialConfig]) -> None:
    """Train, then score each set; a trial that is told to stop returns earlier.

    Raises StateError, MissingStepError, DisagreementError, DivergedError, FaultyError.
    """
    check_tokenizer(trial.config.data.bleu_tokenizer)  # now, rather than after training
    torch.set_num_threads(trial.threads)
    with trial.process_group():
        _train_and_score(trial)


def worker_of(trial: Trial[TrialConfig]) -> Worker:
    """The worker that this process is."""
    device = pick_device()
    tokens = tokens_per_micro_batch(trial.config.train, device)
    return Worker(trial.rank, trial.world, device, tokens, partial(trial.stopping, alone=True))


def _train_and_score(trial: Trial[TrialConfig]) -> None:
    config, worker, prepared = trial.config, worker_of(trial), Prepared(trial.data)
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


def _train(trial: Trial[TrialConfig], state: TrainState, prepared: Prepared, worker: Worker) -> None:
    """To the last step, or until the trial is told to stop."""
    config, train = trial.config, trial.config.train
    batches = TrainingBatches(prepared.pairs("train"), train.tokens_per_batch, config.model.max_positions, train.seed)
    _tell(trial, prepared, PairCounts(len(batches.chosen), prepared.blank, batches.dropped), rates(worker, config))
    scored = partial(greedy_scores, config, prepared, worker) if train.score_every else None
    fit(state, trial, batches, prepared.pairs("dev"), worker, scored)


def _tell(trial: Trial[TrialConfig], prepared: Prepared, counts: PairCounts, known: Mapping[str, float]) -> None:
    of_devices = {"flops_per_s": known} if known else {}
    trial.about({"vocabulary": prepared.vocabulary_sha256, "pairs": asdict(counts), **of_devices})
    if trial.saved is None:  # once per trial
        for line in counts.notices(trial.config.model.max_positions):
            trial.notice(line)


def _costs(state: TrainState, config: TrialConfig) -> Costs:
    vocab_size = state.model.vocab_size
    return Costs(parameters(config.model, vocab_size), training_flops(config.model, vocab_size, state.lengths))


def _score(trial: Trial[TrialConfig], state: TrainState, prepared: Prepared, worker: Worker) -> None:
    """Evaluate each set that has no scores yet; the workers share each of them."""
    config, model = trial.config, state.model
    sample = [TRAIN_SAMPLE] if config.decode.train_sample else []
    names = [name for name in [*prepared.evaluation_sets, *sample] if name not in trial.scored]
    if names and config.decode.average_checkpoints > 1:
        model.load_state_dict(mean_weights(trial.states(config.averaged_steps), model))
    translator = Translator(model.eval(), prepared.vocabulary, config.decode, config.train.precision)
    for name in names:
        try:
            score_set(trial, name, EvaluationSet.of(prepared, name, config), translator, worker)
        except StopRequested:
            return


def score_set(
    trial: Trial[TrialConfig] | Trained[TrialConfig],
    name: str,
    sentences: EvaluationSet,
    translator: Translator,
    worker: Worker,
) -> None:
    """Evaluate the set of this name on every worker, and keep what rank zero has. Raises StopRequested."""
    evaluation = evaluate_set(translator, sentences, worker)
    if evaluation is not None:
        trial.evaluated(name, evaluation.scores, evaluation.texts, evaluation.samples)
