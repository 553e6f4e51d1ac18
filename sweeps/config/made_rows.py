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
    """A row made from the row ``of``: with other ``options``, with ``values`` to be scaled, or with ``final`` values.

    ``group`` is its section of the table; None for that of the row ``of``.
    """

    values: Values = field(default_factory=dict)
    group: str | None = None
    place: str | None = None
    of: str = BASE
    options: dict[str, str] = field(default_factory=dict)
    final: Values = field(default_factory=dict)

    @property
    def content(self) -> str:
        """What tells it from another row."""
        changes = {**self.options, **self.values, **self.final}
        words = ", ".join(f"{key} {changes[key]!r}" for key in sorted(changes))
        scaled = " before scaling" if self.values else ""
        return f"{self.of} with {words}{scaled}"


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
        """The names of each of the rows with each combination of the swept options and values.

        ``final`` gives a row's value of a key after scaling: with that, the row stays as it is.
        """
        self.asked += list(sweeps)
        problems = [problem for key in sweeps if "." in key and (problem := self._key_problem(key))]
        self.problems += [replace(problem, place=COMMAND_LINE) for problem in problems]
        if not self._fits(next(iter(sweeps)), len(rows) * math.prod(map(len, sweeps.values()))) or problems:
            return []
        chosen = [dict(zip(sweeps, each, strict=True)) for each in product(*sweeps.values())]
        known = {self._content(BASE, {}, {}, final): BASE}
        return [self._swept(row, each, final, known) for row in rows for each in chosen]

    def _swept(self, row: str, chosen: Values, final: Callable[[str, str], Any], known: dict[str, str]) -> str:
        """The name of the row with these options and values: that of one of the same content, if there is one."""
        typed = {key: self._number(key, value) for key, value in chosen.items() if "." in key}
        values = {key: value for key, value in typed.items() if not _equal(value, final(row, key))}
        usual = self.library.defaults
        options = {key: str(value) for key, value in chosen.items() if "." not in key and value != usual.get(key)}
        content = self._content(row, options, values, final)
        if content not in known:
            name = row
            group = None
            if values or options:
                name = self._name({**options, **values}, [*options, *self.order])
                name, group = (name, "grid") if row == BASE else (f"{row}-{name}", None)
                self._add(name, MadeRow({}, group, COMMAND_LINE, row, options, values))
            known[content] = name
        return known[content]

    def _content(self, row: str, options: Values, values: Values, final: Callable[[str, str], Any]) -> str:
        """What tells rows apart: their final values, and options that were chosen."""
        return repr((sorted(options.items()), [values.get(key, final(row, key)) for key in self.order]))

    def _add(self, name: str, row: MadeRow) -> None:
        if name in self.library.folders.options("row"):
            file = self.library.folders.written_to(f"row/{name}")
            allowed = f"rename {file}, or list it in sweep.rows and leave the value out"
            found = f"makes row {name}, but a file has that name"
            self.problems.append(Problem(self._maker(row), found, allowed, None, row.place))
        twin = self.rows.setdefault(name, row)
        if twin.content != row.content:
            first, second = (shortened(made.content, LONGEST_CHANGE) for made in (twin, row))
            fault = f"makes two rows with the name {name}: {first} and {second}"
            allowed = "write one of them as a file in conf/, under a name of its own"
            self.problems.append(Problem(self._maker(row), fault, allowed, None, row.place))

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
        """What is wrong with a key that no row may change, or that is none."""
        if key == self.library.schema.seed:
            return Problem(key, "is varied", "set the seeds of all rows with sweep.seeds=[1,2,3]")
        if key in self.order:
            return None
        if key in self.library.keys:
            groups = ", ".join(self.library.schema.groups)
            return Problem(key, "is the same for all rows", f"a row may change only {groups}")
        meant, allowed = unknown_key(self.library.keys, key)
        return Problem(key, UNKNOWN_KEY, allowed, meant)

    def _refuse(self, key: str, found: str, allowed: str) -> None:
        self.problems.append(Problem(key, found, allowed, None, self.place(key)))

    def _number(self, key: str, value: Any) -> Any:
        """A whole number as a decimal where the key takes decimals, so that 0 and 0.0 make the same row."""
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
        return float(value) if whole and self.library.keys.get(key) is float else value


def _flat(tree: dict[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """``{model: {n_heads: [1]}}`` as ``model.n_heads`` with its list."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


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


def _in(value: Any, others: Iterable[Any]) -> bool:
    return any(_equal(value, other) for other in others)


def _equal(value: Any, other: Any) -> bool:
    """Whether two values are the same; 1 is not true."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)
