"""One trial from its configuration to its scores, as one worker of its gang runs it. Knows no scheduler."""

from collections.abc import Generator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformer.config import TrialConfig
from transformer.cost import parameters, training_flops
from transformer.data.batches import TrainingBatches
from transformer.data.here import prepare_here
from transformer.data.left_out import PairCounts
from transformer.data.prepare import Prepared
from transformer.decoding.judge import JudgedSet, judge
from transformer.decoding.load import mean_weights
from transformer.decoding.translate import Translator
from transformer.messages import Assignment, Event, Finished, Judged, Judging, Noticed, Resumed, Started
from transformer.training.checkpoint import Checkpoints
from transformer.training.memory import kept_memory
from transformer.training.parallel import Worker, describe_device, join
from transformer.training.precision import fast_matmuls
from transformer.training.train import State, fit, start

Scores = dict[str, dict[str, Any]]


def work(assignment: Assignment, rank: int = 0, world: int = 1, address: str = "") -> Iterator[Event]:
    """Be one worker of a trial. Only the leading one yields events, but all must be run to their end."""
    with join(rank, world, address, assignment.threads, assignment.tokens_per_pass) as worker:
        if worker.leads:
            yield Started(describe_device(worker), world)
        text = assignment.config.data, Path(assignment.data_folder), assignment.data_fingerprint
        prepared = prepare_here(*text, assignment.vocabulary)
        precision = assignment.config.train.precision
        with fast_matmuls(assignment.config.model, precision, worker.device), kept_memory():
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
    counts = PairCounts(len(batches.chosen), prepared.blank, batches.dropped)
    if worker.leads and not state.step:  # once per trial
        yield from map(Noticed, counts.notices(trial.model.max_positions))
    known = assignment.judged if state.step == trial.train.steps else {}  # weights trained from here on are others
    yield from fit(state, trial, batches, prepared.pairs("dev"), checkpoints, worker)
    if worker.leads:
        yield Judging(state.step)
    worker.wait()  # the last checkpoint is on disk before anyone averages
    if trial.decode.average > 1:
        state.model.load_state_dict(mean_weights(checkpoints.last(trial.decode.average)))
    scores = yield from _judge(state, trial, prepared, known, worker)
    if worker.leads:
        yield Finished(state.step, {**_costs(state, trial), "pairs": asdict(counts)}, scores)


def _judge(
    state: State, trial: TrialConfig, prepared: Prepared, known: Scores, worker: Worker
) -> Generator[Event, None, Scores]:
    """Each set that is not known yet, by all workers; the leading one yields what they find, and has all scores."""
    translator = Translator(state.model.eval(), prepared.vocabulary, trial.decode, trial.train.precision)
    scores = {}
    for name in prepared.judged_sets:
        if name in known:
            scores[name] = known[name]
            continue
        found = judge(translator, JudgedSet.of(prepared, name, trial.data.target), worker)
        if found:
            scores[name] = found.scores
            yield Judged(state.step, name, found.scores, found.hypotheses, found.statistics)
    return scores


def _costs(state: State, trial: TrialConfig) -> dict[str, Any]:
    vocab_size, tally = state.model.vocab_size, state.tally
    return {
        "params": parameters(trial.model, vocab_size),
        "flops": training_flops(trial.model, vocab_size, tally.lengths),
        "seconds": tally.seconds,
        "tokens_per_s": tally.lengths.target / tally.seconds if tally.seconds else 0.0,
    }
