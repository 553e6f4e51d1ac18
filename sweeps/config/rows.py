"""Rows as plain data: composed by Hydra, at the paper's size and with the scale on top; and what is wrong there.

A scale divides widths, depth and steps, which must divide evenly. It may also set values, which become base's. A row
that changes such a value keeps a number in proportion to base, and text or a switch unchanged.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import gcd
from pathlib import Path
from typing import Any, TypeGuard

from sweeps.config.files import BASE, examined, lines_of
from sweeps.config.hydra import Library, changing_keys, changing_problem, option, resolved
from sweeps.config.made_rows import MadeRow, MadeRows
from sweeps.config.overrides import Overrides, other_name
from sweeps.config.schema import Schema, one_line
from sweeps.config.settings import MAKERS, Scale, parse_scale
from sweeps.schema import (
    COMMAND_LINE,
    UNKNOWN_KEY,
    Problem,
    RefusedError,
    Tree,
    assigned,
    differences,
    merged,
    nested,
)


@dataclass(frozen=True)
class Layered:
    """One row from its files (``paper``), and with the scale's values on top (``scaled``)."""

    paper: Tree
    scaled: Tree


@dataclass
class Kept:
    """What became of a row's differences in keys that the scale sets."""

    values: Tree = field(default_factory=dict)  # in proportion to base
    left_out: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def keep_differences(row: Layered, base: Layered, scale: Scale, schema: Schema) -> Kept:
    """Restore the row's differences in ``row.scaled``. A key whose divisor is null is the same for every row."""
    kept = Kept()
    undivided = [key for key, by in schema.divided.items() if scale.divisors[by.by] is None]
    for key, value, was, now in _taken(row, base, schema.groups):
        group, _, name = key.partition(".")
        if key in undivided and _is_count(value):
            kept.left_out.append(key)
            continue
        found = _in_proportion(value, was, now)
        if found is None or found == now:
            kept.problems.append(_vanishes(key, value, was, now, scale.name))
            continue
        row.scaled[group][name] = found
        if found != value:
            kept.values[key] = found
    return kept


def apply_scale(tree: Tree, scale: Scale, schema: Schema, changed: Collection[str] = ()) -> list[Problem]:
    """Divide in place; returns what does not divide. The schema refuses values that are no positive whole numbers.

    ``changed`` are the keys by which a row differs from base: there the row's value is the fault, not the scale's.
    """
    problems = []
    undivided = dict[str, list[str]]()
    for key, role in schema.divided.items():
        group, _, inner = key.partition(".")
        name = role.by
        values = tree.get(group)
        divisor = scale.divisors[role.by] or 1
        if not isinstance(values, dict) or not _is_count(value := values.get(inner)):
            continue
        if value % divisor == 0:
            values[inner] = value // divisor
        elif key in changed:
            found = f"is {value}, which scale.{name}={divisor} does not divide"
            problems.append(Problem(key, found, f"must be a multiple of {divisor}, or choose another scale"))
        else:
            undivided.setdefault(name, []).append(f"{key}, which is {value}")
    for name, keys in undivided.items():
        problems.append(Problem(f"scale.{name}", f"is {scale.divisors[name]}", f"must divide {', '.join(keys)}"))
    return problems


def before_scaling(row: Layered, base: Layered, schema: Schema, own: Iterable[str]) -> str:
    """The row's change at the paper's size: its own words, or its values in symbols.

    "" if scaling touches neither a difference nor another key that its ``own`` file sets.
    """
    changed = differences(base.paper, row.paper, schema.groups)
    if differences(row.paper, row.scaled, schema.groups).keys().isdisjoint({*changed, *own}):
        return ""
    words = row.paper["row"].get("change") if isinstance(row.paper.get("row"), dict) else None
    short = {schema.short(key): value for key, value in changed.items()}
    return (one_line(words) if isinstance(words, str) else "") or schema.described(short)


def _taken(row: Layered, base: Layered, groups: Iterable[str]) -> Iterator[tuple[str, Any, Any, Any]]:
    """Each key in which the row differs from base until the scale sets it, with the values of row, base and scale."""
    for key, value in differences(base.paper, row.paper, groups).items():
        group, _, name = key.partition(".")
        usual = base.paper[group]
        scaled = base.scaled.get(group)
        own = row.scaled.get(group)
        if not isinstance(scaled, dict) or not isinstance(own, dict):
            continue  # the schema refuses it
        if name in usual and name in scaled and own.get(name) == scaled[name]:
            yield key, value, usual[name], scaled[name]


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _in_proportion(value: Any, was: Any, now: Any) -> Any:
    """``value`` / ``was`` × ``now``, exact in decimals; None if no such number exists. Other values stay."""
    numbers = (value, was, now)
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        return value
    try:
        exact = Fraction(str(value)) / Fraction(str(was)) * Fraction(str(now))
    except ZeroDivisionError:
        return None
    except ValueError:  # infinite or not a number, which the schema refuses
        return value
    if isinstance(was, int) and isinstance(now, int):
        return int(exact) if exact.denominator == 1 else None
    return float(exact)


def _vanishes(key: str, value: Any, was: Any, now: Any, scale: str) -> Problem:
    """Why a scale cannot keep the row's value, and what to do about it."""
    elsewhere = f"choose a scale that does not set {key}"
    numbers = all(isinstance(number, int) and not isinstance(number, bool) for number in (value, was, now))
    if numbers and was and now:
        found = f"is {value}, which does not scale to a whole number (base has {was}, but {now} at scale {scale})"
        return Problem(key, found, f"must be a multiple of {abs(was) // gcd(was, now)}, or {elsewhere}")
    found = f"is {value}, but at scale {scale} the row would not differ from base, which has {now}"
    return Problem(key, found, f"remove it from the row, or {elsewhere}")


class FoundProblems:
    """Collects problems, each with its place.

    ``overrides`` are the ``typed`` ones on top of those that the ``study`` has recorded, with its ``rows``.
    """

    def __init__(
        self,
        library: Library,
        typed: Overrides,
        overrides: Overrides,
        study: Path | None = None,
        rows: Collection[str] = (),
    ) -> None:
        self.library = library
        self.typed = typed
        self.overrides = overrides
        self.study = study
        self.recorded = rows
        self.chosen = dict(overrides.choices)
        self.every: list[Problem] = []
        self.made = MadeRows(library, self.place_of_maker)
        self.way_out = ""  # what to type about a value that the study has recorded
        self._wrong_in_base: set[str] = set()

    def refuse(self, key: str, found: str, allowed: str, meant: str | None = None) -> None:
        """Keep a problem of the command line."""
        self.every.append(Problem(key, found, allowed, meant, COMMAND_LINE))

    def note(self, problems: Iterable[Problem], row: str = "") -> None:
        """Keep the problems, each with the place that set the value. A wrong value of base is no fault of the rows."""
        new = [problem for problem in problems if row == BASE or problem.key not in self._wrong_in_base]
        self._wrong_in_base |= {problem.key for problem in new if row == BASE}
        for problem in new:
            near = (problem.found == UNKNOWN_KEY and other_name(problem.key, self.library.keys)) or problem.nearest
            place = problem.place or self.place(problem.key, row)
            if problem.found == UNKNOWN_KEY and (problem.key, place) in [(each.key, each.place) for each in self.every]:
                continue  # what its file may set is already told
            allowed = problem.allowed + (self.way_out if self.study and place == self.record else "")
            swept = row == BASE and problem.key in self.typed.sweeps
            found = problem.found + (" in base, with which each row is compared" if swept else "")
            self.every.append(replace(problem, found=found, allowed=allowed, place=place, nearest=near))

    def options(self, row: str, more: Mapping[str, str] | None = None) -> list[str]:
        """What Hydra composes a row from, but for the scale."""
        chosen = {key: name for key, name in {**self.chosen, **(more or {})}.items() if key not in ("row", "scale")}
        rows = [option("row", row)] if row != self.library.defaults["row"] else []
        return [*(option(group, name) for group, name in chosen.items()), *rows]

    @property
    def scale_option(self) -> list[str]:
        return [option("scale", self.chosen["scale"])] if "scale" in self.chosen else []

    def source(self, key: str) -> str | None:
        """Where the value of an override comes from; None if the key has no override."""
        meant = {"sweep.rows": "row", "sweep.seeds": self.library.schema.seed}.get(key, key)
        if not {key, meant}.isdisjoint([*self.typed.values, *self.typed.sweeps]) or meant in self.typed.choices:
            return COMMAND_LINE
        return self.record if key in self.overrides.values else None

    def place_of_maker(self, key: str) -> str | None:
        """Where a key that makes rows was written."""
        return self.source(".".join(key.split(".")[:2])) or self.library.place_of(key, *self.options(BASE))

    def is_only_recorded(self, row: str) -> bool:
        """Whether the row has no file and is not made: the study alone has it."""
        return row in self.recorded and row not in (*self.made.rows, *self.library.folders.options("row"))

    def place(self, key: str, row: str) -> str | None:
        """Where the row's value was set, or should have been."""
        made = self.made.rows.get(row, MadeRow(of=row or BASE))
        folders = self.library.folders
        if source := self.source(key):
            return source
        if key in {**made.values, **made.final}:
            return made.place
        if self.is_only_recorded(row):
            return self.record
        file = folders.find(f"row/{row}") if row != BASE else folders.find(BASE)
        if row != BASE and file:  # its value was meant, though the scale's stands above it
            own = self.library.place_of(key, *self.options(row), "~scale")
            if own and own.startswith(f"{folders.show(file)}:"):
                return own
        line = self.library.place_of(key, *self.options(made.of, made.options), *self.scale_option)
        lacking = row != BASE or key.partition(".")[0] in self.library.schema.groups
        return line or (f"{folders.show(file)}:1" if file and lacking else None)

    @property
    def record(self) -> str | None:
        """The file of the recorded study."""
        return self.library.folders.show(self.study / "study.json") if self.study else None


ALL = "all"
"""``sweep.rows=all``: the rows that the sweep's file lists. In such a file: base, and every row with a file."""


@dataclass(frozen=True)
class Scaled:
    """One row after scaling, before all other overrides. ``before`` is its change at the paper's size, if that is
    another."""

    tree: Tree
    kept: Kept = field(default_factory=Kept)
    before: str = ""


class RowTrees:
    """Composes each row once. ``values`` are the overrides; those of ``scale`` decide how rows are scaled."""

    def __init__(self, found: FoundProblems, values: dict[str, Any]) -> None:
        self.found = found
        self.library = found.library
        self.schema = found.library.schema
        self._divisors = {key: value for key, value in values.items() if key.startswith("scale.")}
        self._papers: dict[str, Tree | None] = {}
        self._scaled: dict[str, Scaled | None] = {}

    def scaled(self, row: str) -> Scaled | None:
        """None if the row cannot be composed; its problems are kept."""
        if row not in self._scaled:
            self._scaled[row] = self._scale_row(row)
        return self._scaled[row]

    def readable(self, group: str, name: str) -> bool:
        """Whether the option's file can be read. The problems of a user's own file are kept."""
        path = f"{group}/{name}".lstrip("/")
        folders = self.library.folders
        self.found.every += folders.shadowing(path)
        file = folders.find(path)
        if file is None or not folders.is_own(file):
            return True
        try:
            self.found.note(examined(file, folders.show(file), group, self.schema), BASE if path == BASE else "")
        except RefusedError as error:
            self.found.every += error.problems
            return False
        return True

    @cached_property
    def lists(self) -> Tree:
        """The lists of values in the sweep's file, of which rows are made, by dotted key."""
        sweep = self.library.compose(*self.found.options(BASE), *self.found.scale_option)["sweep"]
        return {key: sweep[key.removeprefix("sweep.")] for key in MAKERS if sweep.get(key.removeprefix("sweep."))}

    @cached_property
    def base(self) -> Layered | None:
        return self._layered(BASE)

    @cached_property
    def listed(self) -> Any:
        """``sweep.rows`` from the files: the order of the study's table."""
        return self.base.scaled["sweep"].get("rows") if self.base is not None else None

    def _scale_row(self, row: str) -> Scaled | None:
        layered = self.base if row == BASE else self._layered(row)
        base = self.base
        if layered is None or base is None:
            return None
        tree = deepcopy(layered.scaled)
        scale, problems = parse_scale(self.library.task, tree["scale"])
        if scale is None:
            self.found.note(problems, row)
            return Scaled(tree)
        now = Layered(layered.paper, tree)
        kept = keep_differences(now, base, scale, self.schema)
        undivided = apply_scale(tree, scale, self.schema, differences(base.paper, layered.paper, self.schema.groups))
        # a fault of the scale is no fault of the rows
        self.found.note(apply_scale(deepcopy(base.scaled), scale, self.schema) or [*kept.problems, *undivided], row)
        made = self.found.made.rows.get(row)
        file = self.library.folders.find(f"row/{row}")
        if made and made.final:  # its own values are not scaled
            return Scaled(assigned(tree, made.final), kept)
        return Scaled(tree, kept, before_scaling(now, base, self.schema, lines_of(file) if file else ()))

    def _layered(self, row: str) -> Layered | None:
        """One row without and with its scale. References resolve to values at the paper's size."""
        paper = self._paper(row)
        if paper is None or self._overlay is None:
            return None
        scaled = merged(paper, self._overlay)
        both = (paper | {"scale": scaled["scale"]}, scaled)
        first, second = (self.resolved(assigned(each, self._divisors), row) for each in both)
        return None if first is None or second is None else Layered(first, second)

    def resolved(self, tree: Tree, row: str) -> Tree | None:
        """Without references; None if one cannot be resolved, whose problem is kept."""
        plain, problems = resolved(tree)
        changing = [key for key in changing_keys(tree) if self._must_stay(key)]
        self.found.note([*problems, *(changing_problem(key, tree) for key in changing)], row)
        return plain

    def _must_stay(self, key: str) -> bool:
        """Whether a trial would be trained or scored again when the key's value changes."""
        role = self.schema.fingerprinted.get(key)
        free = key in self.schema.observes or (role is not None and role.place)
        return key.split(".")[0] in (*self.schema.groups, "scale") and not free

    @cached_property
    def _overlay(self) -> Tree | None:
        """What the scale sets, with its references. What is set in the place of a group is refused by the schema."""
        base = self._paper(BASE)
        scaled = self._composed(*self.found.options(BASE), *self.found.scale_option)
        if base is None or scaled is None:
            return None
        unset = {group: scaled[group] for group in self.schema.groups if not isinstance(scaled.get(group, {}), dict)}
        return _differing(base, scaled) | unset

    def _paper(self, row: str) -> Tree | None:
        """A row before its scale, with its references; a made one as if a file had been written for it."""
        if row not in self._papers:
            made = self.found.made.rows.get(row, MadeRow(of=row))
            options = [*self.found.options(made.of, made.options), "~scale"]
            tree = self._composed(*options) if self.readable("row", made.of) else None
            if tree is not None and made.of != row:
                about = {"group": made.group or tree["row"].get("group")}
                tree = merged(tree, nested(made.values)) | {"row": about}
            elif tree is not None and row != BASE:
                self._drop_words_of_others(tree, row)
            self._papers[row] = tree
        return self._papers[row]

    def _drop_words_of_others(self, tree: Tree, row: str) -> None:
        """Words and published figures belong to the row whose file states them, not to rows that build on it."""
        file = self.library.folders.find(f"row/{row}")
        about = tree.get("row")
        if file is None or not isinstance(about, dict):
            return
        stated = lines_of(file)
        if "row.change" not in stated:
            about.pop("change", None)
        published = about.get("published")
        if isinstance(published, dict):
            about["published"] = {
                name: figure for name, figure in published.items() if f"row.published.{name}" in stated
            }

    def _composed(self, *options: str) -> Tree | None:
        """As Hydra composes it, without the lists of which rows are made; a problem is kept."""
        try:
            tree = deepcopy(self.library.compose(*options))
        except RefusedError as error:
            self.found.every += error.problems
            return None
        sweep = {key: value for key, value in tree["sweep"].items() if f"sweep.{key}" not in MAKERS}
        if sweep.get("rows") == ALL:
            sweep["rows"] = list(dict.fromkeys([BASE, *self.library.folders.options("row")]))
        return {**tree, "sweep": sweep}


def _differing(below: Tree, above: Tree) -> Tree:
    """The values of ``above`` that differ from those of ``below``, in groups and mappings."""
    found: Tree = {}
    for key, value in above.items():
        before = below.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := _differing(before, value):
                found[key] = inner
        elif key not in below or repr(value) != repr(before):
            found[key] = value
    return found
