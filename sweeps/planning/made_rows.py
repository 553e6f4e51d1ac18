"""Rows that ``sweep.vary`` and ``sweep.grid`` make of lists of values, as if a file had been written for each.

``vary`` makes one row per value, which differs from base in that key alone; ``grid`` makes one row per combination.
Values are those before scaling. A row is named by its changes, the same in every study.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from sweeps.planning.made_lists import Lists, as_typed, readable_lists
from sweeps.planning.recorded import nested
from sweeps.planning.settings import MAKERS
from sweeps.planning.suggestions import known_keys
from sweeps.planning.yaml_files import Library
from sweeps.schema import Problem, nearest

GRID = MAKERS[1]
MOST = 1000
LONGEST = 120  # bytes of a name
Place = Callable[[str], str | None]
"""Where a dotted key such as ``sweep.vary.model.n_heads`` is set."""


@dataclass(frozen=True)
class MadeRow:
    """Dotted keys and their values at the paper's size, and where each was written.

    ``group`` is its section of the table: "vary" or "grid".
    """

    group: str
    values: dict[str, Any]
    places: dict[str, str | None]

    @property
    def tree(self) -> dict[str, Any]:
        """The content of the file that the row stands for."""
        return {"row": {"group": self.group}, **nested(self.values)}


@dataclass(frozen=True)
class MadeRows:
    """``asked`` are the makers that were given."""

    asked: tuple[str, ...] = ()
    rows: dict[str, MadeRow] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def first_place(self, row: str) -> str | None:
        return next(iter(self.rows[row].places.values())) if row in self.rows else None

    def offered(self, unknown: Problem, name: str) -> Problem:
        """The refusal of an unknown row, with the made rows as those that there are."""
        if not self.rows:
            return unknown
        allowed = f"must be one of {', '.join(self.rows)}, or have a file"
        return replace(unknown, allowed=allowed, nearest=nearest(name, self.rows) or unknown.nearest)

    def place(self, row: str, key: str) -> str | None:
        return self.rows[row].places.get(key) if row in self.rows else None


def made_rows(given: Mapping[str, Any], base: Mapping[str, Any], library: Library, place: Place) -> MadeRows:
    """The rows of these makers, with every problem. ``base`` has the values at the paper's size.

    A row's file must not have the name of a made row.
    """
    made = MadeRows(tuple(given))
    for maker, asked in given.items():
        lists = readable_lists(maker, asked, library, place)
        made.problems.extend(lists.problems)
        _make(made, maker, lists, base, place, library)
    for name in made.rows.keys() & set(library.options("row")):
        row = made.rows[name]
        found = f"makes row {name}, but a file has that name"
        allowed = f"rename conf/{library.folder('row')}/{name}.yaml, or list it in sweep.rows and leave the value out"
        made.problems.append(Problem(f"sweep.{row.group}", found, allowed, None, next(iter(row.places.values()))))
    return made


def _make(made: MadeRows, maker: str, lists: Lists, base: Mapping[str, Any], place: Place, library: Library) -> None:
    """Add the rows of one maker, without those that base stands for."""
    size = math.prod(map(len, lists.values.values())) if maker == GRID else 0
    if size > MOST:
        found = f"makes {size} rows"
        made.problems.append(Problem(maker, found, f"must make at most {MOST}", None, place(maker)))
        return
    left_out, new = [], 0
    for values in _combinations(maker, lists):
        changed = {key: value for key, value in values.items() if not _equal(value, _base_value(base, key, library))}
        if changed:
            places = {key: lists.places[key] for key in changed}
            made.rows.setdefault(
                made_name(changed, row_keys(library)), MadeRow(maker.removeprefix("sweep."), changed, places)
            )
            new += 1
        else:
            left_out.append(", ".join(f"{key} {as_typed(value)}" for key, value in values.items()))
    if left_out and not new and not lists.problems:
        allowed = "add a value that differs from base's before scaling"
        found = f"makes no row: base has {'; '.join(left_out)}"
        made.problems.append(Problem(maker, found, allowed, None, place(maker)))
    elif left_out:
        made.notes.append(f"{maker} makes no row of {'; '.join(left_out)}: that is base.")


def _combinations(maker: str, lists: Lists) -> Iterator[dict[str, Any]]:
    """The values of each row: one key for ``vary``, all keys for ``grid``, the last key fastest."""
    if maker == GRID:
        for combined in product(*lists.values.values()) if lists.values else ():
            yield dict(zip(lists.values, combined, strict=True))
    else:
        yield from ({key: value} for key, values in lists.values.items() for value in values)


def row_keys(library: Library) -> list[str]:
    """The keys that a row may change, in the order of the schema."""
    return [key for key in known_keys(library.tree) if key.split(".")[0] in library.row_groups]


def made_name(values: Mapping[str, Any], order: list[str]) -> str:
    """``n_heads_16-p_drop_0.2``: the keys in the order of the schema, each with its value."""
    ordered = sorted(values, key=order.index)
    name = "-".join(f"{_short(key, order)}_{_plain(as_typed(values[key]))}" for key in ordered)
    return name if len(name.encode()) <= LONGEST else _cut(name)


def _short(key: str, known: list[str]) -> str:
    """The last component, with its group where another group has it too."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in known) == 1 else key


def _plain(text: str) -> str:
    """The text as part of a folder's name. If letters are replaced, a digest tells it from similar texts."""
    name = re.sub(r"[^\w.+-]+", "-", text).strip("-.") if re.search(r"[^\w.+-]", text) or not text else text
    return name if name == text else f"{name}{'-' * bool(name)}{_digest(text)}"


def _cut(name: str) -> str:
    return f"{name.encode()[: LONGEST - 7].decode(errors='ignore')}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _base_value(base: Mapping[str, Any], key: str, library: Library) -> Any:
    group, _, name = key.partition(".")
    values = base.get(group)
    return values.get(name, library.schema.neutral.get(key)) if isinstance(values, dict) else None


def _equal(value: Any, other: Any) -> bool:
    """Whether two values are the same; 1 is not true."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)
