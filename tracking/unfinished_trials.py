"""Trials without a result: what stands in a row's note for each of them, and the causes of their
errors."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracking.study import Standing, Study
from tracking.weights import TO_SCORE_AGAIN


@dataclass(frozen=True)
class UnfinishedTrial:
    """A trial without a result: its state in a word, and the cause of its error, if it has one."""

    seed: int
    word: str
    cause: str

    @property
    def text(self) -> str:
        return ": ".join(filter(None, [self.word, self.cause]))


def unfinished_trials(study: Study, seen: Sequence[Standing]) -> list[UnfinishedTrial]:
    """A state stands alone if a retry or a repair has just removed the cause."""
    return [
        UnfinishedTrial(each.trial.seed, *_why_unfinished(study, each))
        for each in seen
        if each.result is None
    ]


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
    """``texts`` say of each unfinished trial why. The most serious comes first: a failure needs a
    person."""
    if len(unfinished) == trials:
        return "; ".join(dict.fromkeys(sorted(texts, key=_gravity)))
    rest = [f"s{each.seed} {text}" for each, text in zip(unfinished, texts, strict=True)]
    return "; ".join([f"{trials - len(rest)} of {trials} seeds", *rest]) if rest else ""


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
