"""Faults between rows: overrides that erase a row's difference, and references to other rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sweeps.config.files import BASE
from sweeps.config.schema import FIXED
from sweeps.planning.study_rows.composed_rows import ComposedRow, Composition
from sweeps.planning.study_rows.request import Request
from sweeps.problems import Problem, RefusedError, Typo
from sweeps.trees import Values
from tracking.words import plural

REFERENCES = "sweep.references"


def erased_rows(request: Request, changes: Mapping[str, Values]) -> Iterator[Problem]:
    """A problem for each override of a key that a row changes: it would erase the row's difference.

    ``changes`` has the values by row. A key that scores may be overridden: there a row keeps its
    own value.
    """
    for key in request.overrides.values:
        rows = [row for row, row_changes in changes.items() if key in row_changes]
        if rows and key not in request.library.schema.scores:
            fault = f"is changed by {plural('row', len(rows))} {', '.join(rows)}"
            allowed = "remove the override, or select rows that keep base's value"
            yield Problem(key, fault, allowed, place=request.sources.source(key))


def erased_options(request: Request, rows: Sequence[str]) -> Iterator[Problem]:
    """The same for each option of a group of which a row's file chooses another one."""
    for group, name in request.overrides.choices.items():
        if group in ("row", *FIXED):
            continue
        changed = [
            row
            for row in _rows_with_option(request, rows, group)
            if request.sources.own_options(row).get(group, name) != name
        ]
        if changed:
            fault = f"is changed by {plural('row', len(changed))} {', '.join(changed)}"
            allowed = "remove the override, or select rows that keep base's option"
            yield Problem(group, fault, allowed, place=request.sources.source(group))


def _rows_with_option(request: Request, rows: Sequence[str], group: str) -> list[str]:
    """The rows that an override of the group gives its option. Those of a grid get it, even if the
    study only has rows made from them."""
    if group in request.typed.sweeps:
        return list(rows)
    return list(dict.fromkeys([*rows, *request.made.parents]))


def refuse_references(composition: Composition) -> None:
    """Raises RefusedError if a row cannot be compared with its reference."""
    references = composition.shared.sweep.references
    rows = {row.name: row for row in composition.rows}
    problems = [*_unknown_rows(references, list(rows))]
    if not problems:
        problems = [*_rows_that_score(references, rows), *_circles(references)]
    if problems:
        place = composition.place_of(REFERENCES, BASE)
        raise RefusedError([replace(problem, place=place) for problem in problems])


def _unknown_rows(references: Mapping[str, str], rows: list[str]) -> Iterator[Problem]:
    allowed = f"must be one of {', '.join(rows)}"
    for row, reference in references.items():
        if row not in rows:
            fault = f'names "{row}", which is no row of this sweep'
            yield Problem(REFERENCES, fault, allowed, Typo(row, tuple(rows)))
        if reference not in rows:
            fault = f'compares {row} with "{reference}", which is no row of this sweep'
            yield Problem(REFERENCES, fault, allowed, Typo(reference, tuple(rows)))


def _rows_that_score(
    references: Mapping[str, str], rows: Mapping[str, ComposedRow]
) -> Iterator[Problem]:
    """Rows that only score are compared with the row whose weights they score, seed by seed."""
    for row in dict.fromkeys([*references, *references.values()]):
        host = rows[row].builds_on
        if host is not None:
            fault = f"names {row}, which only scores the weights of {host}"
            yield Problem(REFERENCES, fault, f"leave it out: {row} is compared with {host}")


def _circles(references: Mapping[str, str]) -> Iterator[Problem]:
    """Rows that are compared with each other, directly or not. A row without a reference is
    compared with base."""
    reported = set[str]()
    for row in references:
        path = _path(row, references)
        if path[-1] in path[:-1] and reported.isdisjoint(path):
            circle = path[path.index(path[-1]) :]
            reported |= set(circle)
            fault = f"compares in a circle: {' with '.join(circle)}"
            allowed = f"leave one of them out; a row without a reference is compared with {BASE}"
            yield Problem(REFERENCES, fault, allowed)


def _path(row: str, references: Mapping[str, str]) -> list[str]:
    """The row, its reference, the reference of that, and so on to base or to a repeated row."""
    path = [row]
    while path[-1] in references or path[-1] != BASE:
        path.append(references.get(path[-1], BASE))
        if path[-1] in path[:-1]:
            break
    return path
