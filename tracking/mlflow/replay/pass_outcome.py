"""The outcome of a pass over a study, in words for the terminal."""

from dataclasses import dataclass

from tracking.error_causes import cause_of
from tracking.files import DamagedFileError
from tracking.words import grouped

MOST_NAMED = 3
"""Names in one line; with more of them, it has only the first."""


@dataclass(frozen=True)
class PassOutcome:
    """The outcome of one pass: how many runs it visited and points it sent, its problems, and
    notices and remarks to print.

    ``notices`` say what the store lacks, ``remarks`` what a reader of it should know. ``lasting``:
    only a person can solve the problems, so another pass would fail again.
    """

    runs: int
    points: int
    problems: tuple[str, ...]
    notices: tuple[str, ...] = ()
    lasting: bool = False
    remarks: tuple[str, ...] = ()


def are_damage(faults: list[tuple[str, Exception]]) -> bool:
    """Whether all faults are damaged files, which only a person can repair."""
    return all(isinstance(error, DamagedFileError) for _, error in faults)


def problem_lines(faults: list[tuple[str, Exception]]) -> tuple[str, ...]:
    """One line per cause, with the trials that have it."""
    names_of_cause = grouped((cause_of(error), name) for name, error in faults)
    return tuple(f"{shortened(names)}: {cause}" for cause, names in names_of_cause.items())


def shortened(names: list[str], separator: str = ", ") -> str:
    if len(names) <= MOST_NAMED:
        return separator.join(names)
    return f"{names[0]} and {len(names) - 1} more"
