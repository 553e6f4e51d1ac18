"""The rows of a study: composed, scaled, overridden, and checked. All problems are reported at
once."""

from collections.abc import Sequence
from dataclasses import replace

from sweeps.config.files import BASE
from sweeps.config.library import Library
from sweeps.config.rows.row_trees import Scaled
from sweeps.config.settings import Settings, absolute, parse_settings, repaired_settings
from sweeps.config.study_faults import conflicts
from sweeps.planning.study_rows.composed_rows import ComposedRow, Composition
from sweeps.planning.study_rows.request import Request, read_request
from sweeps.planning.study_rows.row_faults import erased_options, erased_rows, refuse_references
from sweeps.planning.study_rows.row_names import row_of_trial, rows_of_sweep
from sweeps.planning.study_rows.study_record import StudyRecord
from sweeps.problems import RefusedError
from sweeps.trees import Tree, Values, differences


def compose_sweep(
    overrides: list[str], library: Library, record: StudyRecord | None = None
) -> Composition:
    """Every row that the overrides name or make, after those of ``record``. Raises RefusedError
    with every problem."""
    request = read_request(overrides, library, record, sweeps=True)
    rows = rows_of_sweep(request)
    values = request.values | rows.values
    composition = _compose(replace(request, values=values), rows.names, rows.notes)
    refuse_references(composition)
    return composition


def compose_row(
    overrides: list[str], library: Library, record: StudyRecord | None = None
) -> Composition:
    """The one row that ``row=`` names, by default base, after those of ``record``.

    Raises RefusedError with every problem.
    """
    request = read_request(overrides, library, record)
    return _compose(request, row_of_trial(request).names)


def compose_base(overrides: list[str], library: Library) -> Composition:
    """Only base, for what all rows share: its trials may be incomplete. Raises RefusedError."""
    return _compose(read_request(overrides, library), [BASE], trains=False)


def compose_settings(overrides: list[str], library: Library) -> Settings:
    """A study's name and location, for verbs that only read it. Raises RefusedError."""
    return compose_base(overrides, library).shared


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
    changes: dict[str, Values] = {name: {} for name in scaled_rows}
    for name, scaled in scaled_rows.items():
        if scaled is None:
            continue
        changes[name] = differences(base, scaled.tree, request.library.schema.groups)
        row = _composed_row(request, name, scaled, changes[name], base, trains)
        if row is not None:
            rows[name] = row
    collector.problems += erased_rows(request, {name: changes[name] for name in row_names})
    collector.problems += erased_options(request, row_names)
    if collector.problems:
        raise RefusedError(dict.fromkeys(collector.problems))
    return Composition(
        rows=tuple(rows[name] for name in row_names),
        base=rows[BASE].settings,
        table_order=tuple(map(str, request.trees.listed or ())),
        overrides=request.overrides,
        typed=request.typed,
        defaults=request.library.defaults,
        place_of=request.sources.place,
        row_notes=(*request.made.notes, *notes, *request.ignored_notes),
        lists_all=request.trees.lists_all,
    )


def _composed_row(
    request: Request, name: str, scaled: Scaled, changes: Values, base: Tree, trains: bool
) -> ComposedRow | None:
    """The complete row; None if a value is refused. Overrides are final values, except for the
    scoring keys that the row sets itself."""
    library = request.library
    own_scores = library.schema.scores & {*changes, *scaled.own_keys}
    values = {key: value for key, value in request.values.items() if key not in own_scores}
    tree = request.trees.final(name, scaled, values)
    if tree is None:
        return None
    settings, problems = parse_settings(library.source, tree)
    wrong = {problem.key for problem in problems}
    checked = settings or repaired_settings(library.source, tree, base, wrong)
    if checked is not None:
        problems += [problem for problem in conflicts(checked, trains) if problem.key not in wrong]
    request.collector.note(problems, name)
    if settings is None:
        return None
    return ComposedRow(
        name,
        absolute(settings, library.folders.here),
        changes=changes,
        kept=scaled.kept,
        location=scaled.location,
        before_scaling=scaled.before,
        builds_on=scaled.builds_on,
    )
