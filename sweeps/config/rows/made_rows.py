"""Rows without a file: ``sweep.vary`` makes them, and overrides with several values.

``vary`` makes one row per value, which differs from base only in that key, or one row per entry of
several keys. These values are scaled, like those of a file. An override with several values means
the same as in Hydra: one row per combination, with final values. A row is named by its changes, so
it has the same name in every study.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from sweeps.config.files import BASE
from sweeps.config.library import Library
from sweeps.config.rows.row_naming import as_typed, made_name
from sweeps.config.settings import VARY
from sweeps.fields import is_text
from sweeps.problems import COMMAND_LINE, Problem
from sweeps.trees import Tree, Values, dotted
from tracking.words import LONGEST_CHANGE, shortened

MOST_ROWS = 1000
PlaceOf = Callable[[str], str | None]
"""Where a dotted key such as ``sweep.vary.model.n_heads`` is set."""
ChoiceOf = Callable[[str, str], str | None]
"""A row's option of a group."""


@dataclass(frozen=True)
class MadeRow:
    """A row made from its ``parent``: with other ``options``, with ``values`` to scale, or with
    ``final`` values.

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
    """The rows that one command makes; ``asked`` are the keys that make them, and ``parents`` the
    rows of a grid. ``drafts`` are no rows of the study: each has the options of one, but not its
    values."""

    def __init__(self, library: Library, place: PlaceOf, choice: ChoiceOf) -> None:
        self.library = library
        self.place = place
        self.choice = choice
        self.order = library.row_keys
        self.asked: list[str] = []
        self.parents: list[str] = []
        self.rows: dict[str, MadeRow] = {}
        self.drafts: dict[str, MadeRow] = {}
        self.notes: list[str] = []
        self.problems: list[Problem] = []

    def row(self, name: str) -> MadeRow | None:
        """The made row or draft of this name."""
        return self.rows.get(name) or self.drafts.get(name)

    def vary(self, lists: Any, base: Tree) -> None:
        """Make the rows of ``sweep.vary``, or collect its problems. ``base`` is at the paper's
        size."""
        self.asked.append(VARY)
        n_problems = len(self.problems)
        base_values = self.library.schema.neutral | dotted(base)
        rows = list(self._varied_rows(lists))
        if not self._fits(VARY, len(rows)):
            return
        like_base = []
        for values in rows:
            changes = _changes(values, base_values)
            if changes:
                place_of_row = self.place(f"{VARY}.{next(iter(values))}")
                group = VARY.removeprefix("sweep.")
                self._add(self._name(changes, self.order), MadeRow(changes, group, place_of_row))
            else:
                like_base.append(_in_words(values))
        if like_base and len(like_base) == len(rows) and len(self.problems) == n_problems:
            allowed = "add a value that differs from base's before scaling"
            self._refuse(VARY, f"makes no row: base has {'; '.join(like_base)}", allowed)
        elif like_base:
            self.notes.append(
                f"{VARY} makes no row for {'; '.join(like_base)}: base has it already."
            )

    def sweep(
        self, rows: list[str], sweeps: Mapping[str, list[Any]], final: Callable[[str, str], Any]
    ) -> list[str]:
        """The names of the rows, each with each combination of the swept options and values.

        ``final`` returns a row's value of a key after scaling. A row keeps its name if nothing
        changes.
        """
        self.asked += list(sweeps)
        self.parents = rows
        problems = self._sweep_problems(sweeps)
        self.problems += problems
        n_rows = len(rows) * math.prod(map(len, sweeps.values()))
        if not self._fits(next(iter(sweeps)), n_rows) or problems:
            return []
        combinations = [
            dict(zip(sweeps, values, strict=True)) for values in product(*sweeps.values())
        ]
        groups = [key for key in sweeps if "." not in key]
        base_options = {group: self.choice(BASE, group) for group in groups}
        names_by_content = {self._content(BASE, base_options, {}, final): BASE}
        return [
            self._swept_name(row, combination, final, names_by_content)
            for row in rows
            for combination in combinations
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
        """The name of the row with these options and values, which is made if no row has the same
        content."""
        swept_options = {key: value for key, value in combination.items() if "." not in key}
        options = {
            group: str(name)
            for group, name in swept_options.items()
            if name != self.choice(row, group)
        }
        parent = self._draft(row, options)
        values = {}
        for key, value in combination.items():
            taken = self._as_taken(key, value)
            if "." in key and not _equal(taken, final(parent, key)):
                values[key] = taken
        content = self._content(parent, swept_options, values, final)
        if content not in names_by_content:
            names_by_content[content] = self._made_name(row, options, values)
        return names_by_content[content]

    def _draft(self, row: str, options: dict[str, str]) -> str:
        """The name of the row with these options alone, to whose values swept ones are compared."""
        if not options:
            return row
        name = f"{row} with {_in_words(options)}"
        self.drafts[name] = MadeRow(place=COMMAND_LINE, parent=row, options=options)
        return name

    def _made_name(self, row: str, options: dict[str, str], values: Values) -> str:
        """The name of the row with these changes, which is made; without changes, the row
        itself."""
        if not values and not options:
            return row
        name = self._name({**options, **values}, [*options, *self.order])
        group: str | None = "grid"
        if row != BASE:
            name = f"{row}-{name}"
            group = None
        self._add(name, MadeRow({}, group, COMMAND_LINE, row, options, values))
        return name

    def _content(
        self, row: str, options: Values, values: Values, final: Callable[[str, str], Any]
    ) -> str:
        """What distinguishes rows: their options of the swept groups and final values. Equal rows
        have equal texts."""
        final_values = [values.get(key, final(row, key)) for key in self.order]
        return repr((sorted(options.items()), final_values))

    def _add(self, name: str, row: MadeRow) -> None:
        if name in self.library.folders.options("row"):
            file = self.library.folders.written_to(f"row/{name}")
            allowed = f"rename {file}, or list it in sweep.rows and omit the value"
            fault = f"makes row {name}, but a file has that name"
            self.problems.append(Problem(self._maker(row), fault, allowed, place=row.place))
        twin = self.rows.setdefault(name, row)
        if twin.content != row.content:
            first = shortened(twin.content, LONGEST_CHANGE)
            second = shortened(row.content, LONGEST_CHANGE)
            fault = f"makes two rows with the name {name}: {first} and {second}"
            allowed = "write one of them as a file in conf/, under its own name"
            self.problems.append(Problem(self._maker(row), fault, allowed, place=row.place))

    def _name(self, values: Values, order: list[str]) -> str:
        return made_name(values, order, self.library.keys)

    @staticmethod
    def _maker(row: MadeRow) -> str:
        """The key that makes the row."""
        return VARY if row.values else next(iter({**row.options, **row.final}))

    def _fits(self, key: str, rows: int) -> bool:
        if rows > MOST_ROWS:
            self._refuse(key, f"makes {rows} rows", f"must make at most {MOST_ROWS}")
        return rows <= MOST_ROWS

    def _varied_rows(self, lists: Any) -> Iterator[Values]:
        """The values of each row: one value of a list, or all values of an entry."""
        if _are_entries(lists):
            for entry in lists:
                values = self._valid_lists((key, [value]) for key, value in _flat(entry))
                if values:
                    yield {key: items[0] for key, items in values.items()}
        elif isinstance(lists, dict) and lists:
            for key, values_of_key in self._valid_lists(_flat(lists)).items():
                for value in values_of_key:
                    yield {key: value}
        else:
            key = next(iter(self.library.schema.short_names))
            example = f"{VARY}='{{{key}: [VALUE, VALUE]}}'"
            allowed = f"must be keys with lists of values, such as {example}"
            self._refuse(VARY, "is empty" if lists == "" else f"is {lists}", allowed)

    def _valid_lists(self, lists: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
        """The lists by key, each value once. Problems are collected, and lists with a wrong key are
        left out.

        A list with another problem stays, so that its values are checked too.
        """
        valid: dict[str, list[Any]] = {}
        for name, values in lists:
            key = self.library.key_of(name)
            key_problem = self._key_problem(key)
            problem = key_problem or _list_problem(key, values)
            if key_problem is None and key in valid:
                problem = Problem(key, "is given twice", "give all its values in one list")
            if problem:
                self.problems.append(replace(problem, place=self.place(f"{VARY}.{key}")))
            if isinstance(values, list) and values and key_problem is None:
                valid[key] = _without_repeats([self._as_taken(key, value) for value in values])
        return valid

    def _key_problem(self, key: str) -> Problem | None:
        """The problem of a key that no row may change, or that does not exist."""
        if key == self.library.schema.seed:
            return Problem(key, "is varied", "set the seeds of all rows with sweep.seeds=[1,2,3]")
        if key in self.order:
            return None
        if key in self.library.keys:
            groups = ", ".join(self.library.schema.groups)
            return Problem(key, "is the same for all rows", f"a row may change only {groups}")
        return self.library.hints.unknown_key(key)

    def _refuse(self, key: str, fault: str, allowed: str) -> None:
        self.problems.append(Problem(key, fault, allowed, place=self.place(key)))

    def _as_taken(self, key: str, value: Any) -> Any:
        """A whole number as a decimal or a text, if the key takes those: 0 and 0.0 make the same
        row. A decimal is never made a text: 1.10 would be 1.1."""
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        kind = self.library.keys.get(key)
        if kind is float and abs(value) < 2**53:
            return float(value)
        return str(value) if is_text(kind) else value


def _are_entries(lists: Any) -> bool:
    """Whether it is a list of entries, each with the keys and values of one row."""
    if not isinstance(lists, list) or not lists:
        return False
    return all(isinstance(entry, dict) and entry for entry in lists)


def _changes(values: Values, base_values: Values) -> Values:
    """The values that differ from base's."""
    return {key: value for key, value in values.items() if not _equal(value, base_values.get(key))}


def _in_words(values: Values) -> str:
    """The values for messages, such as "model.n_heads 8, model.p_drop 0.1"."""
    return ", ".join(f"{key} {as_typed(value)}" for key, value in values.items())


def _without_repeats(values: list[Any]) -> list[Any]:
    return [value for index, value in enumerate(values) if not _in(value, values[:index])]


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
