"""A translation trial as one worker of its group runs it; the model's messages become the platform's events."""

from collections.abc import Callable, Iterator
from typing import assert_never

from sweeps import events
from sweeps.schema import parse
from sweeps.task import Assignment
from tracking.artifacts import hypotheses_name, hypotheses_text, statistics_name, statistics_text
from transformer import messages
from transformer.config import TrialConfig
from transformer.worker import work as train_and_evaluate


def work(
    assignment: Assignment, rank: int, world: int, address: str, stop: Callable[[], bool]
) -> Iterator[events.Event]:
    """Rank zero's events; the other workers yield none, but must be iterated to their end."""
    for message in train_and_evaluate(assigned(assignment), rank, world, address, stop):
        yield event(message, assignment.key)


def assigned(given: Assignment) -> messages.Assignment:
    """The assignment as ``transformer`` takes it."""
    config, _ = parse(TrialConfig, given.config)
    assert config is not None
    return messages.Assignment(
        config,
        given.attempt,
        given.data_folder,
        given.data_fingerprint,
        given.checkpoints,
        given.key,
        given.threads,
        given.tokens_per_micro_batch,
        given.prepared_as,
        given.evaluated,
        given.run,
    )


def event(message: messages.Event, key: str) -> events.Event:
    """The platform's event of the same name. Hypotheses and statistics become texts of the trial ``key``."""
    match message:
        case messages.Report():
            return _report(message)
        case messages.Resumed(step, reports):
            return events.Resumed(step, tuple(map(_report, reports)))
        case messages.Evaluated():
            return _evaluated(message, key)
        case (
            messages.Started()
            | messages.Noticed()
            | messages.Stopped()
            | messages.Evaluating()
            | messages.Finished()
            | messages.Failed()
            | messages.Lost()
        ):
            same = getattr(events, type(message).__name__)
            return same(**vars(message))  # type: ignore[no-any-return]
        case _:
            assert_never(message)


def _report(message: messages.Report) -> events.Report:
    return events.Report(message.step, message.metrics, message.ts, message.checkpoint)


def _evaluated(message: messages.Evaluated, key: str) -> events.Evaluated:
    head = {"key": key, "step": message.step, "scores": message.scores}
    texts = {
        hypotheses_name(message.set_name): hypotheses_text(message.hypotheses),
        statistics_name(message.set_name): statistics_text(head, message.statistics),
    }
    return events.Evaluated(message.step, message.set_name, message.scores, texts)
