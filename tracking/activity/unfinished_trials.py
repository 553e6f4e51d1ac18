"""Trials without a result: what a row's note says of each, and the causes of their errors."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracking.study import Standing, Study
from tracking.weights import TO_SCORE_AGAIN
from tracking.words import grouped, ranges


@dataclass(frozen=True)
class UnfinishedTrial:
    """A trial without a result: its state in a word, and the cause of its error, if it has one."""

    seed: int
    word: str
    cause: str

    @property
    def text(self) -> str:
        return ": ".join(filter(None, [self.word, self.cause]))


def unfinished_trials(study: Study, standings: Sequence[Standing]) -> list[UnfinishedTrial]:
    """Without a cause if a retry or a repair has just removed it."""
    trials = []
    for standing in standings:
        if standing.result is None:
            word, cause = _why_unfinished(study, standing)
            trials.append(UnfinishedTrial(standing.trial.seed, word, cause))
    return trials


def _why_unfinished(study: Study, standing: Standing) -> tuple[str, str]:
    """The state and its cause. A trial that only scores waits for its host's weights."""
    folder = study.trial_folder(standing.trial)
    state = standing.state
    fault = study.host_fault(standing.trial)
    if state in ("missing", "interrupted") and fault:
        return "missing", fault
    if state == "failed":
        return "FAILED", folder.cause() or ""
    if state == "damaged":
        return "damaged", ", ".join(error.note for error in folder.damage())
    return state, ""


def full_note(unfinished: Sequence[UnfinishedTrial], trials: int) -> str:
    """Such as "1 of 3 seeds; s2 FAILED: out of memory; s3 missing"."""
    texts = [(trial.text, trial.seed) for trial in unfinished]
    if len(unfinished) == trials:
        return _gravest_first(texts)
    return _number_of_seeds(unfinished, trials, texts)


def brief_note(unfinished: Sequence[UnfinishedTrial], trials: int) -> str:
    """Such as "1 of 3 seeds; s2 FAILED": without causes, and without seeds that are only missing,
    which the number shows."""
    words = [(trial.word, trial.seed) for trial in unfinished]
    if len(unfinished) == trials:
        return _gravest_first(words)
    notable = [(word, seed) for word, seed in words if word != "missing"]
    return _number_of_seeds(unfinished, trials, notable)


def _gravest_first(texts: Sequence[tuple[str, int]]) -> str:
    """Why each trial of a row is unfinished, with a failure first: it needs a person."""
    return "; ".join(dict.fromkeys(sorted((text for text, _ in texts), key=_gravity)))


def _number_of_seeds(
    unfinished: Sequence[UnfinishedTrial], trials: int, texts: Sequence[tuple[str, int]]
) -> str:
    """How many of a row's trials have finished, and why these seeds have not."""
    if not unfinished:
        return ""
    parts = [f"{trials - len(unfinished)} of {trials} seeds"]
    for text, seeds in grouped(texts).items():
        parts.append(f"{ranges(seeds, 's')} {text}")
    return "; ".join(parts)


def seeds_of_errors(unfinished: Sequence[UnfinishedTrial]) -> dict[str, tuple[int, ...]]:
    """The seeds of each error."""
    seeds_of_error: dict[str, tuple[int, ...]] = {}
    for trial in unfinished:
        if trial.cause:
            seeds_of_error[trial.text] = (*seeds_of_error.get(trial.text, ()), trial.seed)
    return seeds_of_error


def _gravity(note: str) -> int:
    order = ("FAILED", "damaged", "running", "interrupted", TO_SCORE_AGAIN, "missing")
    return order.index(note.partition(":")[0])
