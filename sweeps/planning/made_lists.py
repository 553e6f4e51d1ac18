"""The keys and lists of ``sweep.vary`` and ``sweep.grid``, checked: every problem at once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sweeps.planning.suggestions import known_keys, unknown_key
from sweeps.planning.yaml_files import Library
from sweeps.schema import UNKNOWN_KEY, Problem, kind_of

Place = Callable[[str], str | None]


@dataclass
class Lists:
    """The values of each key, and where the key was written."""

    values: dict[str, list[Any]] = field(default_factory=dict)
    places: dict[str, str | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def readable_lists(maker: str, asked: Any, library: Library, place: Place) -> Lists:
    """The valid lists, and the problems of the others."""
    found = Lists()
    if not isinstance(asked, dict) or not asked:
        shown = "is empty" if asked in ({}, "", None) else f"is {asked}"
        allowed = f"must be keys with lists of values, such as {maker}='{library.list_example}'"
        found.problems.append(Problem(maker, shown, allowed, None, place(maker)))
        return found
    for typed, values in _flat(asked):
        key, where = str(typed), place(f"{maker}.{typed}") or place(maker)
        unknown = _key_problem(key, library)
        problem = unknown or (_twice(key) if key in found.places else _list_problem(key, values))
        found.places[key] = where
        if problem:
            found.problems.append(replace(problem, place=where))
        if isinstance(values, list) and values and not unknown:  # those of a list with a fault are checked too
            each = [_number(library.tree, key, value) for value in values]
            found.values[key] = [value for place, value in enumerate(each) if not _in(value, each[:place])]
    return found


def _flat(tree: dict[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """``{model: {n_heads: [1]}}`` as ``model.n_heads`` with its list."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _key_problem(key: str, library: Library) -> Problem | None:
    """What is wrong with a key that no row may change, or that is none."""
    group = key.partition(".")[0]
    known = known_keys(library.tree)
    if key == library.schema.seed:
        return Problem(key, "is varied", "set the seeds of all rows with sweep.seeds=[1,2,3]")
    if key in known and group in library.row_groups:
        return None
    if group == "scale":
        return Problem(key, "is the same for all rows", "set it for all rows with scale=NAME or scale.width=N")
    if key in known:
        allowed = f"a row may change only {', '.join(library.row_groups)}"
        return Problem(key, "is the same for all rows", allowed)
    inside = [name for name in known if name.startswith(f"{key}.")]
    if inside and group in library.row_groups:
        return Problem(key, "is a group of keys", f"vary one of {', '.join(inside)}")
    meant, allowed = unknown_key(library.tree, key)
    return Problem(key, UNKNOWN_KEY, allowed, meant)


def _twice(key: str) -> Problem:
    return Problem(key, "is given twice", "give all its values in one list")


def _list_problem(key: str, values: Any) -> Problem | None:
    """What is wrong with the form of a list. Its values are checked with the rows that they make."""
    if not isinstance(values, list):
        return Problem(key, f"is {as_typed(values)}", "must be a list of values, such as [1, 4]")
    if not values:
        return Problem(key, "is an empty list", "must list at least one value")
    repeated = [value for place, value in enumerate(values) if _in(value, values[:place])]
    if repeated:
        return Problem(key, f"lists {as_typed(repeated[0])} twice", "must list each value once")
    return None


def as_typed(value: Any) -> str:
    """A value as it is typed in a list."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return "+".join(map(as_typed, value)) if isinstance(value, list) else str(value)


def _in(value: Any, others: list[Any]) -> bool:
    return any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in others)


def _number(tree: type, key: str, value: Any) -> Any:
    """A whole number as a decimal where the key takes decimals, so that 0 and 0.0 make the same row."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    return float(value) if whole and kind_of(tree, key) is float else value
