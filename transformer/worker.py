"""One trial from its configuration to its scores, as run by one worker of its group. Independent of any scheduler."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from sweeps.task import RefusedError
from transformer.config import TrialConfig
from transformer.cost import parameters, training_flops
from transformer.data.batches import TrainingBatches
from transformer.data.here import prepare_here
from transformer.data.left_out import PairCounts
from transformer.data.prepare import Prepared
from transformer.decoding.evaluate_set import EvaluationSet, evaluate_set
from transformer.decoding.greedy_scores import GreedyScores
from transformer.decoding.load import mean_of_newest
from transformer.decoding.translate import Translator
from transformer.messages import Assignment, Evaluated, Evaluating, Event, Finished, Noticed, Resumed, Started, Stopped
from transformer.training.broadcast import from_rank_zero
from transformer.training.checkpoint import CheckpointError, Checkpoints
from transformer.training.parallel import StopRequested, Worker, describe_device, join, never
from transformer.training.precision import efficient
from transformer.training.resume import resume
from transformer.training.saved_state import check_weights
from transformer.training.train import TrainState, fit, start

Scores = dict[str, dict[str, Any]]


def work(
    assignment: Assignment, rank: int = 0, world: int = 1, address: str = "", stop: Callable[[], bool] = never
) -> Iterator[Event]:
    """Run one worker of a trial. Only rank zero yields events, but every worker must be iterated to its end.

    Once ``stop`` is true on any worker, the step is finished and saved; rank zero's last event is Stopped.
    """
    with join(rank, world, address, assignment.threads, assignment.tokens_per_micro_batch, stop) as worker:
        if worker.is_rank_zero:
            yield Started(describe_device(worker), world)
        text = assignment.config.data, Path(assignment.data_folder), assignment.data_fingerprint
        prepared = prepare_here(*text, assignment.vocabulary)
        precision = assignment.config.train.precision
        try:
            with efficient(assignment.config.model, precision, worker.device), _checkpoints(assignment) as checkpoints:
                yield from _train_and_evaluate(assignment, prepared, worker, checkpoints)
        except StopRequested:  # during the scoring of a set; the sets before it were reported
            yield Stopped(assignment.config.train.steps)


def _checkpoints(assignment: Assignment) -> Checkpoints:
    keep = assignment.config.train.keep_checkpoints
    return Checkpoints(assignment.checkpoints, assignment.key, assignment.attempt, keep)


def _train_and_evaluate(
    assignment: Assignment, prepared: Prepared, worker: Worker, checkpoints: Checkpoints
) -> Iterator[Event]:
    trial = assignment.config
    state = start(trial, len(prepared.vocabulary), worker.device)
    resumed = resume(state, trial.train.steps, checkpoints, worker, assignment.run)
    if worker.is_rank_zero:
        yield from map(Noticed, checkpoints.notices())
    if worker.is_rank_zero and resumed:
        yield Resumed(state.step, tuple(state.reports))
    batches = TrainingBatches(
        prepared.pairs("train"), trial.train.tokens_per_batch, trial.model.max_positions, trial.train.seed
    )
    counts = PairCounts(len(batches.chosen), prepared.blank, batches.dropped)
    if worker.is_rank_zero and not state.step:  # once per trial
        yield from map(Noticed, counts.notices(trial.model.max_positions))
    known = assignment.evaluated if state.step == trial.train.steps else {}  # scores of older weights do not count
    scored = GreedyScores.of(trial, prepared, worker) if trial.train.score_every else None
    yield from fit(state, trial, batches, prepared.pairs("dev"), checkpoints, worker, scored)
    if state.step < trial.train.steps:
        if worker.is_rank_zero:
            yield Stopped(state.step)
        return
    if worker.is_rank_zero:
        yield Evaluating(state.step)
    if trial.decode.average_checkpoints > 1:
        state.model.load_state_dict(from_rank_zero(worker, partial(_mean, state, trial, checkpoints)))
    scores = yield from _evaluate(state, trial, prepared, known, worker)
    if worker.is_rank_zero:
        checkpoints.tidy()
        yield from map(Noticed, checkpoints.notices())
        yield Finished(state.step, {**_costs(state, trial), "pairs": asdict(counts)}, scores)


def _mean(state: TrainState, trial: TrialConfig, checkpoints: Checkpoints) -> dict[str, Tensor]:
    """The weights to score. Raises CheckpointError, since a refusal would say that nothing was started."""
    try:
        return mean_of_newest(trial, checkpoints, state.step, partial(check_weights, model=state.model))
    except RefusedError as refusal:
        raise CheckpointError(str(refusal.problems[0])) from refusal


def _evaluate(
    state: TrainState, trial: TrialConfig, prepared: Prepared, known: Scores, worker: Worker
) -> Generator[Event, None, Scores]:
    """Evaluate each set without known scores on all workers; rank zero yields each result and returns all scores."""
    translator = Translator(state.model.eval(), prepared.vocabulary, trial.decode, trial.train.precision)
    scores = {}
    for name in prepared.evaluation_sets:
        if name in known:
            scores[name] = known[name]
            continue
        found = evaluate_set(translator, EvaluationSet.of(prepared, name, trial.data.target), worker)
        if found:
            scores[name] = found.scores
            yield Evaluated(state.step, name, found.scores, found.hypotheses, found.statistics)
    return scores


def _costs(state: TrainState, trial: TrialConfig) -> dict[str, Any]:
    vocab_size, tally = state.model.vocab_size, state.tally
    return {
        "params": parameters(trial.model, vocab_size),
        "flops": training_flops(trial.model, vocab_size, tally.lengths),
        "seconds": tally.seconds,
        "tokens_per_s": tally.lengths.target / tally.seconds if tally.seconds else 0.0,
    }
