"""Rows that are made without a file: by ``sweep.vary`` and ``sweep.grid``, and by overrides with several values.

``vary`` makes one row per value, which differs from base in that key alone, or one row per entry of several keys;
``grid`` makes one row per combination. These values are scaled, as those of a file are. An override with several values
means what it means to Hydra: one row per combination, with final values. A row is named by its changes, so its name is
the same in every study.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from sweeps.config.files import BASE
from sweeps.config.hydra import Library
from sweeps.config.overrides import unknown_key
from sweeps.config.row_naming import as_typed, made_name
from sweeps.config.settings import MAKERS
from sweeps.schema import COMMAND_LINE, UNKNOWN_KEY, Problem, Tree, Values, dotted
from tracking.words import LONGEST_CHANGE, shortened

VARY = MAKERS[0]
MOST_ROWS = 1000
PlaceOf = Callable[[str], str | None]
"""Where a dotted key such as ``sweep.vary.model.n_heads`` is set."""


@dataclass(frozen=True)
class MadeRow:
    """A row made from its ``parent``: with other ``options``, with ``values`` to scale, or with ``final`` values.

    ``group`` is its section of the table; None means the parent's.
    """

    values: Values = field(default_factory=dict)
    group: str | None = None
    place: str | None = None
    parent: str = BASE
    options: dict[str, str] = field(default_factory=dict)
    final: Values = field(default_factory=dict)

    @property
    def content(self) -> str:
        """The changes that distinguish it from other rows."""
        changes = {**self.options, **self.values, **self.final}
        words = ", ".join(f"{key} {changes[key]!r}" for key in sorted(changes))
        scaled = " before scaling" if self.values else ""
        return f"{self.parent} with {words}{scaled}"


class MadeRows:
    """The rows that one command makes; ``asked`` are the keys that make them."""

    def __init__(self, library: Library, place: PlaceOf) -> None:
        self.library = library
        self.place = place
        self.order = library.row_keys
        self.asked: list[str] = []
        self.rows: dict[str, MadeRow] = {}
        self.notes: list[str] = []
        self.problems: list[Problem] = []

    def vary(self, maker: str, asked: Any, base: Tree) -> None:
        """The rows of ``sweep.vary`` or ``sweep.grid``, or every problem with it; ``base`` is of the paper's size."""
        self.asked.append(maker)
        before = len(self.problems)
        usual = self.library.schema.neutral | dotted(base)
        grids = list(self._grids(maker, asked))
        if not self._fits(maker, sum(math.prod(map(len, grid.values())) for grid, _ in grids)):
            return
        made = [
            (dict(zip(grid, each, strict=True)), place) for grid, place in grids for each in product(*grid.values())
        ]
        like_base = []
        for values, place in made:
            if changed := {key: value for key, value in values.items() if not _equal(value, usual.get(key))}:
                self._add(self._name(changed, self.order), MadeRow(changed, maker.removeprefix("sweep."), place))
            else:
                like_base.append(", ".join(f"{key} {as_typed(value)}" for key, value in values.items()))
        if like_base and len(like_base) == len(made) and len(self.problems) == before:
            allowed = "add a value that differs from base's before scaling"
            self._refuse(maker, f"makes no row: base has {'; '.join(like_base)}", allowed)
        elif like_base:
            self.notes.append(f"{maker} makes no row of {'; '.join(like_base)}: that is base.")

    def sweep(self, rows: list[str], sweeps: Mapping[str, list[Any]], final: Callable[[str, str], Any]) -> list[str]:
        """The names of the rows, each with each combination of the swept options and values.

        ``final`` returns a row's value of a key after scaling. A row keeps its name if nothing changes.
        """
        self.asked += list(sweeps)
        problems = self._sweep_problems(sweeps)
        self.problems += problems
        n_rows = len(rows) * math.prod(map(len, sweeps.values()))
        if not self._fits(next(iter(sweeps)), n_rows) or problems:
            return []
        combinations = [dict(zip(sweeps, values, strict=True)) for values in product(*sweeps.values())]
        names_by_content = {self._content(BASE, {}, {}, final): BASE}
        return [
            self._swept_name(row, combination, final, names_by_content) for row in rows for combination in combinations
        ]

    def _sweep_problems(self, sweeps: Iterable[str]) -> list[Problem]:
        """The problems of swept keys that no row may change."""
        problems = [self._key_problem(key) for key in sweeps if "." in key]
        return [replace(problem, place=COMMAND_LINE) for problem in problems if problem]

    def _swept_name(
        self,
        row: str,
        combination: Values,
        final: Callable[[str, str], Any],
        names_by_content: dict[str, str],
    ) -> str:
        """The name of the row with these options and values, which is made if no row has the same content."""
        options = {}
        values = {}
        for key, value in combination.items():
            if "." not in key:
                if value != self.library.defaults.get(key):
                    options[key] = str(value)
                continue
            number = self._number(key, value)
            if not _equal(number, final(row, key)):
                values[key] = number
        content = self._content(row, options, values, final)
        if content not in names_by_content:
            names_by_content[content] = self._made_name(row, options, values)
        return names_by_content[content]

    def _made_name(self, row: str, options: dict[str, str], values: Values) -> str:
        """The name of the row with these changes, which is made; without changes, the row itself."""
        if not values and not options:
            return row
        name = self._name({**options, **values}, [*options, *self.order])
        group: str | None = "grid"
        if row != BASE:
            name = f"{row}-{name}"
            group = None
        self._add(name, MadeRow({}, group, COMMAND_LINE, row, options, values))
        return name

    def _content(self, row: str, options: Values, values: Values, final: Callable[[str, str], Any]) -> str:
        """What distinguishes rows: their chosen options and final values. Equal rows have equal texts."""
        final_values = [values.get(key, final(row, key)) for key in self.order]
        return repr((sorted(options.items()), final_values))

    def _add(self, name: str, row: MadeRow) -> None:
        if name in self.library.folders.options("row"):
            file = self.library.folders.written_to(f"row/{name}")
            allowed = f"rename {file}, or list it in sweep.rows and leave the value out"
            fault = f"makes row {name}, but a file has that name"
            self.problems.append(Problem(self._maker(row), fault, allowed, place=row.place))
        twin = self.rows.setdefault(name, row)
        if twin.content != row.content:
            first = shortened(twin.content, LONGEST_CHANGE)
            second = shortened(row.content, LONGEST_CHANGE)
            fault = f"makes two rows with the name {name}: {first} and {second}"
            allowed = "write one of them as a file in conf/, under a name of its own"
            self.problems.append(Problem(self._maker(row), fault, allowed, place=row.place))

    def _name(self, values: Values, order: list[str]) -> str:
        return made_name(values, order, self.library.keys)

    @staticmethod
    def _maker(row: MadeRow) -> str:
        """The key that makes the row."""
        return f"sweep.{row.group}" if row.values else next(iter({**row.options, **row.final}))

    def _fits(self, key: str, rows: int) -> bool:
        if rows > MOST_ROWS:
            self._refuse(key, f"makes {rows} rows", f"must make at most {MOST_ROWS}")
        return rows <= MOST_ROWS

    def _grids(self, maker: str, asked: Any) -> Iterator[tuple[dict[str, list[Any]], str | None]]:
        """Lists of values by key, and where they were written. Each combination of a grid's values is a row.

        Each key of ``vary`` is a grid of its own. So is each of its entries, with one value per key.
        """
        listed = isinstance(asked, list) and asked and all(isinstance(each, dict) and each for each in asked)
        if maker == VARY and listed:
            entries = [{key: [value] for key, value in _flat(entry)} for entry in asked]
            grids = [self._lists(maker, entry.items()) for entry in entries]
        elif isinstance(asked, dict) and asked:
            lists = self._lists(maker, _flat(asked))
            grids = [{key: values} for key, values in lists.items()] if maker == VARY else [lists]
        else:
            key = next(iter(self.library.schema.short_names))
            allowed = f"must be keys with lists of values, such as {maker}='{{{key}: [VALUE, VALUE]}}'"
            self._refuse(maker, "is empty" if asked == "" else f"is {asked}", allowed)
            return
        yield from ((grid, self.place(f"{maker}.{next(iter(grid))}")) for grid in grids if grid)

    def _lists(self, maker: str, asked: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
        """The valid lists by key; the problems of the others are kept."""
        found: dict[str, list[Any]] = {}
        for key, values in asked:
            unknown = self._key_problem(key)
            twice = Problem(key, "is given twice", "give all its values in one list") if key in found else None
            if problem := unknown or twice or _list_problem(key, values):
                self.problems.append(replace(problem, place=self.place(f"{maker}.{key}")))
            if isinstance(values, list) and values and not unknown:  # those of a list with a fault are checked too
                each = [self._number(key, value) for value in values]
                found[key] = [value for place, value in enumerate(each) if not _in(value, each[:place])]
        return found

    def _key_problem(self, key: str) -> Problem | None:
        """The problem of a key that no row may change, or that does not exist."""
        if key == self.library.schema.seed:
            return Problem(key, "is varied", "set the seeds of all rows with sweep.seeds=[1,2,3]")
        if key in self.order:
            return None
        if key in self.library.keys:
            groups = ", ".join(self.library.schema.groups)
            return Problem(key, "is the same for all rows", f"a row may change only {groups}")
        suggestion, allowed = unknown_key(self.library.keys, key)
        return Problem(key, UNKNOWN_KEY, allowed, suggestion)

    def _refuse(self, key: str, fault: str, allowed: str) -> None:
        self.problems.append(Problem(key, fault, allowed, place=self.place(key)))

    def _number(self, key: str, value: Any) -> Any:
        """The value, as a decimal if the key takes decimals: 0 and 0.0 make the same row."""
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        takes_decimals = self.library.keys.get(key) is float
        if is_whole and takes_decimals and abs(value) < 2**53:
            return float(value)
        return value


def _flat(tree: dict[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """``{model: {n_heads: [1]}}`` as ``model.n_heads`` with its list."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _list_problem(key: str, values: Any) -> Problem | None:
    """The problem of a list's form. Its values are checked later, with the rows that they make."""
    if not isinstance(values, list):
        return Problem(key, f"is {as_typed(values)}", "must be a list of values, such as [1, 4]")
    if not values:
        return Problem(key, "is an empty list", "must list at least one value")
    for index, value in enumerate(values):
        if _in(value, values[:index]):
            return Problem(key, f"lists {as_typed(value)} twice", "must list each value once")
    return None


def _in(value: Any, values: Iterable[Any]) -> bool:
    return any(_equal(value, item) for item in values)


def _equal(first: Any, second: Any) -> bool:
    """Whether two values are the same; 1 is not true."""
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)
