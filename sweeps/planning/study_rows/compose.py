"""The rows of a study: composed, scaled, overridden, and checked. All problems are reported at
once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sweeps.config.files import BASE
from sweeps.config.hydra import Library
from sweeps.config.row_keys import builds_on, lists_all, own_keys
from sweeps.config.rows import Scaled
from sweeps.config.settings import Settings, absolute, parse_settings
from sweeps.config.study_faults import study_problems
from sweeps.planning.study_rows.composed_rows import ComposedRow, Composition
from sweeps.planning.study_rows.request import Request, read_request
from sweeps.planning.study_rows.row_names import row_of_trial, rows_of_sweep
from sweeps.planning.study_rows.row_references import refuse_references
from sweeps.planning.study_rows.study_record import StudyRecord
from sweeps.problems import Problem, RefusedError
from sweeps.trees import Tree, Values, assigned, differences, dotted
from tracking.words import plural


def compose_sweep(
    overrides: list[str],
    here: Path | None = None,
    record: StudyRecord | None = None,
    library: Library | None = None,
) -> Composition:
    """Every row that the overrides name or make, after those of ``record``. Raises RefusedError
    with every problem."""
    request = read_request(overrides, here or Path.cwd(), record, library, sweeps=True)
    rows = rows_of_sweep(request)
    values = request.values | rows.values
    composition = _compose(replace(request, values=values), rows.names, rows.notes)
    refuse_references(composition)
    return composition


def compose_row(
    overrides: list[str],
    here: Path | None = None,
    record: StudyRecord | None = None,
    library: Library | None = None,
) -> Composition:
    """The one row that ``row=`` names, by default base, after those of ``record``.

    Raises RefusedError with every problem.
    """
    request = read_request(overrides, here or Path.cwd(), record, library)
    return _compose(request, row_of_trial(request).names)


def compose_base(
    overrides: list[str], here: Path | None = None, library: Library | None = None
) -> Composition:
    """Only base, for what all rows share: its trials may be incomplete. Raises RefusedError."""
    request = read_request(overrides, here or Path.cwd(), None, library, trains=False)
    return _compose(request, [BASE], trains=False)


def compose_settings(
    overrides: list[str], here: Path | None = None, library: Library | None = None
) -> Settings:
    """A study's name and location, for verbs that only read it. Raises RefusedError."""
    return compose_base(overrides, here, library).shared


def _compose(
    request: Request, names: Sequence[str], notes: tuple[str, ...] = (), trains: bool = True
) -> Composition:
    """The recorded rows and those with these names, complete. ``trains``: their trials must be
    able to train.

    Raises RefusedError with every problem that was collected.
    """
    collector = request.collector
    collector.note(request.made.problems)
    recorded = request.record.rows if request.record else ()
    row_names = list(dict.fromkeys([*recorded, *names]))
    scaled_rows = {name: request.scaled(name) for name in dict.fromkeys([BASE, *row_names])}
    scaled_base = scaled_rows[BASE]
    if scaled_base is None:
        raise RefusedError(dict.fromkeys(collector.problems))
    base = scaled_base.tree
    rows: dict[str, ComposedRow] = {}
    changes: dict[str, Values] = {}
    for name, scaled in scaled_rows.items():
        if scaled is None:
            continue
        changes[name] = differences(base, scaled.tree, request.library.schema.groups)
        row = _composed_row(request, name, scaled, changes[name], base, trains)
        if row is not None:
            rows[name] = row
    _refuse_erased(request, {name: changes[name] for name in row_names if name in changes})
    if collector.problems:
        raise RefusedError(dict.fromkeys(collector.problems))
    return Composition(
        rows=tuple(rows[name] for name in row_names),
        base=rows[BASE].settings,
        table_order=tuple(map(str, request.trees.listed or ())),
        overrides=request.overrides,
        typed=request.typed,
        defaults=request.library.defaults,
        place_of=collector.place,
        row_notes=_row_notes(request, notes),
        lists_all=lists_all(collector),
    )


def _row_notes(request: Request, notes: Sequence[str]) -> tuple[str, ...]:
    """Lines on rows without a file, and on a file that is not read."""
    ignored = request.library.folders.ignored
    if ignored:
        line = f"{ignored} is not read: change base by a row, a scale or overrides."
        return (*request.made.notes, *notes, line)
    return (*request.made.notes, *notes)


def _composed_row(
    request: Request, name: str, scaled: Scaled, changes: Values, base: Tree, trains: bool
) -> ComposedRow | None:
    """The complete row; None if a value is refused. Overrides are final values, and those that make
    a row stand above them."""
    own_scores = _own_scores(request, name, changes)
    values = {key: value for key, value in request.values.items() if key not in own_scores}
    made_row = request.made.rows.get(name)
    if made_row is not None:
        values |= made_row.final
    tree = request.trees.resolved(assigned(scaled.tree, values), name)
    if tree is None:
        return None
    settings, problems = parse_settings(request.library.source, tree)
    request.collector.note(problems, name)
    wrong_keys = {problem.key for problem in problems}
    checked = settings or _repaired(request, tree, base, wrong_keys)
    conflicts = _conflicts(checked, trains) if checked else []
    request.collector.note(
        (problem for problem in conflicts if problem.key not in wrong_keys), name
    )
    if settings is None:
        return None
    return ComposedRow(
        name,
        absolute(settings, request.here),
        changes=changes,
        kept=scaled.kept,
        location=_location(request, name),
        before_scaling=scaled.before,
        builds_on=builds_on(request.collector, name),
    )


def _own_scores(request: Request, row: str, changes: Values) -> set[str]:
    """The scoring keys that the row sets itself: overrides of them are for the other rows."""
    if row == BASE:
        return set()
    keys = {*changes, *own_keys(request.collector, row)}
    return keys & request.library.schema.scores


def _repaired(request: Request, tree: Tree, base: Tree, wrong_keys: set[str]) -> Settings | None:
    """The settings with base's values instead of the wrong ones, so that the rest can be
    checked."""
    base_values = dotted(base)
    repairs = {key: base_values[key] for key in wrong_keys if key in base_values}
    settings, _ = parse_settings(request.library.source, assigned(tree, repairs))
    return settings


def _conflicts(settings: Settings, trains: bool) -> list[Problem]:
    """The problems between values. ``trains``: those of training count, too."""
    problems = settings.task.problems(settings.trial) if trains else []
    return [*problems, *study_problems(settings)]


def _location(request: Request, row: str) -> str | None:
    """The user's file with the row, or what makes it; None if it is shipped."""
    folders = request.library.folders
    file = folders.find(f"row/{row}")
    if file and folders.is_own(file):
        return folders.show(file)
    made_row = request.made.rows.get(row)
    return made_row.place if made_row else None


def _refuse_erased(request: Request, changes: Mapping[str, Values]) -> None:
    """Refuse an override of a key that a row changes: it would erase the row's difference.

    A key that scores may be overridden: there a row keeps its own value.
    """
    for key in request.overrides.values:
        rows = [row for row, row_changes in changes.items() if key in row_changes]
        if rows and key not in request.library.schema.scores:
            fault = f"is changed by {plural('row', len(rows))} {', '.join(rows)}"
            allowed = "remove the override, or select rows that keep base's value"
            location = request.collector.source(key)
            request.collector.problems.append(Problem(key, fault, allowed, place=location))
