"""The names of the rows that a command asks for; it makes those that have no file."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from sweeps.config.files import BASE
from sweeps.config.settings import VARY
from sweeps.planning.study_rows.request import Request
from sweeps.problems import COMMAND_LINE, Problem
from sweeps.trees import Values

BASE_IS_ADDED = "Added row base, because every row is compared with it."


@dataclass(frozen=True)
class NamedRows:
    """The rows that a command asks for. ``values`` has ``sweep.rows``, if it follows from them."""

    names: list[str]
    values: Values = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def rows_of_sweep(request: Request) -> NamedRows:
    """All rows of a sweep. Unknown names are left out and refused. Empty if only the record names
    rows."""
    _make_varied_rows(request)
    if request.record and not request.typed.names_rows(request.seed) and not request.made.asked:
        return NamedRows([])
    typed_rows = _typed_rows(request)
    swept = {
        key: values
        for key, values in request.typed.sweeps.items()
        if key not in ("row", request.seed)
    }
    first_rows = _first_rows(request, typed_rows, swept)
    asked_rows = _existing_rows(request, first_rows)
    if swept and request.base:
        asked_rows = request.made.sweep(asked_rows, swept, request.final_value)
    are_typed = bool(typed_rows or swept)
    first_names = [BASE, *asked_rows] if are_typed else asked_rows
    names = list(dict.fromkeys([*first_names, *request.made.rows]))
    notes = (BASE_IS_ADDED,) if are_typed and BASE not in asked_rows else ()
    if isinstance(first_rows, list) and not are_typed and not request.made.asked:
        return NamedRows(names, {}, notes)  # ``sweep.rows`` names them already
    return NamedRows(names, {"sweep.rows": names}, notes)


def row_of_trial(request: Request) -> NamedRows:
    """The row of `allelse train`. Lists of values need the name of one of their rows."""
    _refuse_several(request)
    _make_varied_rows(request)
    name = request.sources.chosen.get("row", BASE)
    unknown = _unknown_row(request, name)
    if unknown:
        request.collector.problems.append(unknown)
        return NamedRows([])
    if name not in request.made.rows:
        example = next(iter(request.made.rows), "NAME")
        allowed = f"for one trial, name its row, such as row={example}"
        for key in request.made.asked:
            if key in request.typed.values:
                request.collector.refuse(key, "makes rows for `allelse sweep`", allowed)
    return NamedRows([name])


def _unknown_row(request: Request, row: str) -> Problem | None:
    """The refusal of a row without a file, which neither the study nor this command has."""
    more_names = [*request.sources.recorded_rows, *request.made.rows]
    return request.library.folders.unknown_option("row", row, COMMAND_LINE, more_names)


def _make_varied_rows(request: Request) -> None:
    """Make the rows of ``sweep.vary``, which then count as rows with a file."""
    is_typed = VARY in request.overrides.values
    lists = request.overrides.values[VARY] if is_typed else request.trees.varied
    if (lists or is_typed) and request.base:
        request.made.vary(lists, request.base.paper)


def _typed_rows(request: Request) -> list[str] | None:
    """The rows that ``row=`` names."""
    rows = request.typed.sweeps.get("row")
    if not rows and "row" in request.typed.choices:
        rows = [request.typed.choices["row"]]
    if rows and "sweep.rows" in request.typed.values:
        allowed = "name all rows in one of them"
        request.collector.refuse("row", "and sweep.rows are both given", allowed)
    return rows


def _first_rows(request: Request, typed_rows: list[str] | None, swept: Values) -> Any:
    """The value of ``row`` or ``sweep.rows``. If nothing names rows, lists of values start from
    base."""
    listed_rows = request.trees.listed
    if typed_rows:
        return typed_rows
    if "sweep.rows" in request.values:
        return request.values["sweep.rows"]
    makes_rows = request.made.asked or swept
    if makes_rows and (listed_rows is None or "sweep" not in request.sources.chosen):
        return [BASE]
    return listed_rows


def _existing_rows(request: Request, rows: Any) -> list[str]:
    """The rows of a list that exist, each once. Names that do not exist or are listed twice are
    refused."""
    if not isinstance(rows, list) or not rows:
        allowed = "must be a list of rows, such as [base,big], or all"
        request.collector.note([Problem("sweep.rows", f"is {rows}", allowed)])
        return []
    listed_names = [str(name) for name in rows]
    names = list(dict.fromkeys(listed_names))
    unknown = {name: _unknown_row(request, name) for name in names}
    problems = [
        replace(problem, key="sweep.rows", place=None) for problem in unknown.values() if problem
    ]
    request.collector.note([*problems, *_repeated_rows(listed_names)])
    return [name for name in names if unknown[name] is None]


def _repeated_rows(names: list[str]) -> Iterable[Problem]:
    for name in sorted(set(names)):
        count = names.count(name)
        if count > 1:
            yield Problem("sweep.rows", f"lists {name} {count} times", "must list each row once")


def _refuse_several(request: Request) -> None:
    """Refuse lists of rows or seeds where one trial is asked for."""
    seed_key = request.seed or "sweep.seeds"
    seed_example = f"{request.seed}=N" if request.seed else "sweep.seeds=[N]"
    allowed = f"for one trial, use row=NAME and {seed_example}"
    for key, single_key in (("sweep.rows", "row"), ("sweep.seeds", seed_key)):
        if key not in request.typed.values:
            continue
        values = request.typed.values[key]
        n_values = len(values) if isinstance(values, list) else 0
        if key != single_key or n_values > 1:
            suggestion = f"{single_key}={values[0]}" if n_values == 1 else None
            request.collector.refuse(key, "is for `allelse sweep`", allowed, suggestion)
