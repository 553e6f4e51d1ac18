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


def note_on(texts: Sequence[str], unfinished: Sequence[UnfinishedTrial], trials: int) -> str:
    """A row's note. ``texts`` say why each trial is unfinished. If all are, the most serious reason
    comes first: a failure needs a person."""
    if len(unfinished) == trials:
        return "; ".join(dict.fromkeys(sorted(texts, key=_gravity)))
    if not unfinished:
        return ""
    parts = [f"{trials - len(unfinished)} of {trials} seeds"]
    seeds = [trial.seed for trial in unfinished]
    for text, seeds_of_text in grouped(zip(texts, seeds, strict=True)).items():
        parts.append(f"{ranges(seeds_of_text, 's')} {text}")
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
