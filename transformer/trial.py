"""One trial from its configuration to its scores, as one worker of its gang runs it. Knows no scheduler."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformer.config import TrialConfig
from transformer.cost import parameters, training_flops
from transformer.data.batches import TrainingBatches
from transformer.data.prepare import Prepared, prepare
from transformer.decoding.judge import JudgedSet, Judgement, judge
from transformer.decoding.load import mean_weights
from transformer.decoding.translate import Translator
from transformer.messages import Assignment, Event, Finished, Judging, Noticed, Resumed, Started
from transformer.training.checkpoint import Checkpoints
from transformer.training.parallel import Worker, describe_device, join
from transformer.training.precision import fast_matmuls
from transformer.training.train import State, fit, start


def work(assignment: Assignment, rank: int = 0, world: int = 1, address: str = "") -> Iterator[Event]:
    """Be one worker of a trial. Only the leading one yields events, but all must be run to their end."""
    with join(rank, world, address, assignment.threads, assignment.tokens_per_pass) as worker:
        if worker.leads:
            yield Started(describe_device(worker), world)
        prepared = prepare(assignment.config.data, Path(assignment.data_folder))
        with fast_matmuls(assignment.config, worker.device):
            yield from _train_and_judge(assignment, prepared, worker)


def _train_and_judge(assignment: Assignment, prepared: Prepared, worker: Worker) -> Iterator[Event]:
    trial = assignment.config
    checkpoints = Checkpoints(assignment.checkpoints, assignment.attempt, trial.train.keep_checkpoints)
    state = start(trial, len(prepared.vocabulary), worker.device)
    saved = checkpoints.newest()
    if worker.leads:
        yield from map(Noticed, checkpoints.passed_over)
    if saved:
        state.load(saved)
        del saved  # its weights and moments would be kept through all of training
        if worker.leads:
            yield Resumed(state.step, state.metrics)
    batches = TrainingBatches(
        prepared.pairs("train"), trial.train.tokens_per_batch, trial.model.max_positions, trial.train.seed
    )
    yield from fit(state, trial, batches, prepared.pairs("dev"), checkpoints, worker)
    if worker.leads:
        yield Judging(state.step)
    worker.wait()  # the last checkpoint is on disk before anyone averages
    if trial.decode.average > 1:
        state.model.load_state_dict(mean_weights(checkpoints.last(trial.decode.average)))
    judged = dict(_judge(state, prepared, trial, worker))
    if worker.leads:
        yield _finished(state, trial, judged)


def _judge(state: State, prepared: Prepared, trial: TrialConfig, worker: Worker) -> Iterator[tuple[str, Judgement]]:
    """Every set once, by all workers; the leading one gets the judgements."""
    translator = Translator(state.model, prepared.vocabulary, trial.decode, trial.train.precision)
    for name in prepared.judged_sets:
        judgement = judge(translator, JudgedSet.of(prepared, name, trial.data.target), worker)
        if judgement is not None:
            yield name, judgement


def _finished(state: State, trial: TrialConfig, judged: dict[str, Judgement]) -> Finished:
    return Finished(
        state.step,
        _costs(state, trial),
        {name: judgement.scores for name, judgement in judged.items()},
        {name: judgement.hypotheses for name, judgement in judged.items()},
        {name: judgement.statistics for name, judgement in judged.items()},
    )


def _costs(state: State, trial: TrialConfig) -> dict[str, Any]:
    vocab_size, tally = state.model.vocab_size, state.tally
    return {
        "params": parameters(trial.model, vocab_size),
        "flops": training_flops(trial.model, vocab_size, tally.lengths),
        "seconds": tally.seconds,
        "tokens_per_s": tally.lengths.target / tally.seconds if tally.seconds else 0.0,
    }
