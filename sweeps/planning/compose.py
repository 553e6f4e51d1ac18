"""Rows of a study from ``conf/`` and the command line: base → row → scale → overrides, checked, all errors at once."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeps.planning.composition import ComposedRow as ComposedRow
from sweeps.planning.composition import Composition as Composition
from sweeps.planning.layers import LayerError, Layers, Tree, copied
from sweeps.planning.overrides import COMMAND_LINE, Overrides, parse_overrides
from sweeps.planning.plain_yaml import refers
from sweeps.planning.recorded import Record, nested
from sweeps.planning.scaling import WRITTEN_BY_ROWS, Kept, Layered, apply_scale, keep_differences
from sweeps.planning.settings import Scale, Settings, absolute
from sweeps.planning.study_problems import study_problems
from sweeps.planning.suggestions import option_meant, other_name
from sweeps.planning.yaml_files import Library
from transformer.schema import UNKNOWN_KEY, Problem, RefusedError, parse

ALL = "all"
"""``sweep.rows=all``: the rows that the sweep's file lists."""


def compose_sweep(overrides: list[str], here: Path | None = None, record: Record | None = None) -> Composition:
    """Every row that ``sweep.rows`` names, after those of ``record``. Raises RefusedError with every problem."""
    composer = _Composer(overrides, here or Path.cwd(), record=record)
    row, seed = composer.typed.choices.get("row"), composer.typed.values.get("train.seed")
    if row is not None:
        allowed = "for a sweep, use sweep.rows='[base, …]'"
        composer.refuse("row", "selects the row of `ablate train`", allowed, f"sweep.rows=[{row}]")
    if seed is not None:
        allowed = "for a sweep, use sweep.seeds=[1,2,3]"
        composer.refuse("train.seed", "is set by the sweep", allowed, f"sweep.seeds=[{seed}]")
    names = composer.row_names() if row is None else [row]
    return composer.compose([*(record.rows if record else ()), *names])


def compose_row(
    overrides: list[str], here: Path | None = None, record: Record | None = None, row: str = "base"
) -> Composition:
    """The one row that ``row=`` names, by default ``row``, after those of ``record``.

    Raises RefusedError with every problem.
    """
    composer = _Composer(overrides, here or Path.cwd(), record=record, one_row=True)
    for key, single in (("sweep.rows", "row"), ("sweep.seeds", "train.seed")):
        if key in composer.typed.values:
            listed = composer.typed.values[key]
            meant = f"{single}={listed[0]}" if isinstance(listed, list) and len(listed) == 1 else None
            composer.refuse(key, "is for `ablate sweep`", "for one trial, use row=NAME and train.seed=N", meant)
    return composer.compose([*(record.rows if record else ()), composer.chosen.get("row", row)])


def compose_settings(overrides: list[str], here: Path | None = None, record: Record | None = None) -> Settings:
    """A study's name and location, for verbs that only read it: its trials may be incomplete.

    Raises RefusedError.
    """
    return _Composer(overrides, here or Path.cwd(), trains=False, record=record).compose(["base"]).shared


class _Composer:
    """Collects problems while it composes, to report them together."""

    def __init__(
        self,
        overrides: list[str],
        here: Path,
        trains: bool = True,
        record: Record | None = None,
        one_row: bool = False,
    ) -> None:
        self.here, self.library, self.trains, self.record = here, Library(here), trains, record
        self.typed, self.problems = parse_overrides(overrides, self.library, record.rows if record else (), one_row)
        self.overrides = self.typed if record is None else self.typed.after(record.options, self._recorded(record))
        guesses = self.typed.guesses or Overrides()
        self.chosen = guesses.choices | self.overrides.choices
        self.guessed = {key: value for key, value in guesses.values.items() if key not in self.overrides.values}
        shared = {key: value for key, value in self.guessed.items() if key.split(".")[0] not in WRITTEN_BY_ROWS}
        self.values = shared | self.overrides.values
        self.told = {("", key) for key in {*self.typed.refused, *shared} - set(self.overrides.values)}
        """Row and key of problems that are told already, or that a guess would cause; "" stands for all rows."""
        for group in self.library.groups:
            if group != "row" and not self._readable(group, self.chosen.get(group, self.library.defaults[group]), ""):
                self.chosen.pop(group, None)  # the default lets the rest be checked
        self.layers = Layers(self.library, self.chosen)
        if self.values.get("sweep.rows") == ALL:
            self.values["sweep.rows"] = self._listed

    def _readable(self, group: str, name: str, row: str) -> bool:
        """Whether the option's file can be read. Its problems are kept."""
        found = self.library.examined(group, name)
        self.problems += [*found.faults, *found.doubts]
        self.told |= {(row, problem.key) for problem in found.doubts}
        if found.faults:
            self.told.add((row, group))
        return not found.faults

    def _recorded(self, record: Record) -> dict[str, Any]:
        """The study's values. A typed option of ``decode`` replaces its whole group, as in a new study."""
        replaced = "decode." if "decode" in self.typed.choices else None
        values = {key: value for key, value in record.values.items() if not (replaced and key.startswith(replaced))}
        return values | {"sweep.name": record.study.name}

    def refuse(self, key: str, found: str, allowed: str, meant: str | None) -> None:
        self.problems.append(Problem(key, found, allowed, meant, COMMAND_LINE))

    def row_names(self) -> list[str]:
        """``sweep.rows`` without unknown names, which are refused. Empty if only the record names rows."""
        if self.record and not self.typed.names_rows:
            return []
        asked = self.values.get("sweep.rows", self._listed)
        if not isinstance(asked, list) or not asked:
            allowed = "must be a list of rows, such as [base,big], or all"
            self._note([Problem("sweep.rows", f"is {asked}", allowed, self._rows_meant(asked))], "base")
            self.told.add(("", "sweep.rows"))
            return []
        names = [str(name) for name in asked]
        for name in names:
            unknown = None if self._is_recorded(name) else self.library.unknown_option("row", name, None)
            self._note([replace(unknown, key="sweep.rows")] if unknown else [], "base")
        for name in sorted({name for name in names if names.count(name) > 1}):
            found = f"lists {name} {names.count(name)} times"
            self._note([Problem("sweep.rows", found, "must list each row once")], "base")
        return [name for name in dict.fromkeys(names) if self._exists(name)]

    def _rows_meant(self, asked: Any) -> str | None:
        """The list that is meant by rows without brackets."""
        if not isinstance(asked, str) or asked.casefold() == ALL:
            return ALL if isinstance(asked, str) else None
        names = filter(None, re.split(r"[\s,+;|\[\]]+", asked))
        rows = [option_meant("row", name, self.library.options("row")) for name in names]
        return f"sweep.rows=[{','.join(filter(None, rows))}]" if rows and all(rows) else None

    def compose(self, asked: list[str]) -> Composition:
        """Complete rows. Raises RefusedError with every problem found so far."""
        names = self._with_values(list(dict.fromkeys(asked)))
        readable = {name: self._readable("row", name, name) for name in ["base", *names]}
        wanted = [name for name in readable if readable[name] or name == "base"]
        trees = {name: tree for name in wanted if (tree := self._scaled(name)) is not None}
        if "base" not in trees:
            raise RefusedError(dict.fromkeys(self.problems))
        base = trees["base"]
        changes = {name: _differences(base, tree, WRITTEN_BY_ROWS) for name, tree in trees.items()}
        self._refuse_changed_keys({name: changes[name] for name in names if name in changes})
        for name, tree in trees.items():
            self._refuse_foreign_keys(name, base, tree)
        settings = {name: self._settings(name, tree, base) for name, tree in trees.items()}
        if self.problems:
            raise RefusedError(dict.fromkeys(self.problems))
        complete = {name: value for name, value in settings.items() if value is not None}
        rows = tuple(self._row(name, complete[name], changes[name]) for name in names)
        listed = tuple(map(str, self._listed or ()))
        return Composition(rows, complete["base"], listed, self.typed, self.overrides, self.library.ignored)

    def _with_values(self, names: list[str]) -> list[str]:
        """The rows that have values in a file or in the record; the others are refused."""
        there = list(filter(self._exists, names))
        for name in names:
            if name not in there:
                found = f"includes {name}, which is recorded without values and has no file conf/row/{name}.yaml"
                self._note([Problem("sweep.rows", found, "restore the file, or choose another sweep.name")], name)
        return there

    def _row(self, name: str, settings: Settings, changes: dict[str, Any]) -> ComposedRow:
        own = name in self.library.options("row") and not self.library.is_shipped("row", name)
        kept = self.kept.get(name, Kept())
        place = self._first_line(name, [*changes, *kept.left_out]) if own else None
        return ComposedRow(name, settings, changes, kept, place)

    def _first_line(self, row: str, keys: list[str]) -> str:
        """The line of a row's file that sets the first of these keys, or its first line."""
        file = self.library.show(self.library.path("row", row))
        line = self.library.locate(keys[0], {"row": row}) if keys else None
        return line if line and line.startswith(file) else f"{file}:1"

    @cached_property
    def kept(self) -> dict[str, Kept]:
        """What became of each row's differences in keys that the scale sets."""
        return {}

    @cached_property
    def _listed(self) -> Any:
        """``sweep.rows`` from the files: the order of the study's table."""
        config = self._read("base")
        return None if config is None else config["sweep"].get("rows")

    @cached_property
    def _base(self) -> Layered | None:
        """Base before divisions."""
        return self._layered("base")

    def _read(self, row: str) -> Tree | None:
        """The files' values of one row, before its scale and before overrides."""
        try:
            return self.layers.row(row, without=(key for place, key in self.told if place == row))
        except LayerError as error:
            self.problems.append(error.problem)
            return None

    def _layered(self, row: str) -> Layered | None:
        """One row without and with its scale. References resolve to values at the paper's size."""
        paper, scales = self._read(row), {k: v for k, v in self.values.items() if k.startswith("scale.")}
        if paper is None:
            return None
        self._refuse_scale_in_row(row, paper.pop("scale", None))
        try:
            scaled = self.layers.scaled(paper)
        except LayerError as error:
            self.problems.append(error.problem)
            return None
        trees = [self._assigned(tree, scales, row) for tree in ({**paper, "scale": scaled.get("scale")}, scaled)]
        return None if trees[0] is None or trees[1] is None else Layered(trees[0], trees[1])

    def _scaled(self, row: str) -> Tree | None:
        """One row as plain data after scaling, before all other overrides."""
        if self._is_recorded(row) and row not in self.library.options("row"):
            return self._recorded_row(row)
        layered, base = (self._base if row == "base" else self._layered(row)), self._base
        if layered is None or base is None:
            return None
        tree = copied(layered.scaled)
        scale, problems = parse(Scale, tree.get("scale"), "scale")
        if scale is not None:
            kept = self.kept[row] = keep_differences(Layered(layered.paper, tree), base, scale)
            problems = [*kept.problems, *apply_scale(tree, scale)]
        self._note(problems, row)
        return tree

    def _recorded_row(self, row: str) -> Tree | None:
        """A row without a file, as the study has recorded it."""
        base = self._scaled("base")
        if base is None or self.record is None:
            return None
        recorded, tree = self.record.rows[row], copied(base)
        for group, values in nested(recorded.values or {}).items():
            tree[group] |= values
        change = {"change": "", "published": {"ppl": None, "bleu": None, "params_m": None}}
        return {**tree, "row": {**change, **recorded.about}}

    def _exists(self, row: str) -> bool:
        return self._is_recorded(row) or self.library.unknown_option("row", row, None) is None

    def _is_recorded(self, row: str) -> bool:
        return self.record is not None and row in self.record.rows and self.record.rows[row].values is not None

    def _assigned(self, tree: Tree, values: dict[str, Any], row: str) -> Tree | None:
        """A copy with these dotted keys set and every reference resolved; None, with a problem noted, if one fails."""
        tree = copied(tree)
        for key, value in values.items():
            *groups, name = key.split(".")
            node: Any = tree
            for group in groups:
                node = node.get(group) if isinstance(node, dict) else None
            if isinstance(node, dict):
                node[name] = value
        if not refers(tree):
            return tree
        from sweeps.planning.references import resolved

        plain, problems = resolved(tree)
        self._note(problems, row)
        return plain

    def _settings(self, row: str, tree: dict[str, Any], base: dict[str, Any]) -> Settings | None:
        """One complete row. Overrides are final values."""
        changed = _differences(base, tree, WRITTEN_BY_ROWS)
        guessed = {key: value for key, value in self.guessed.items() if key not in changed}
        plain = self._assigned(tree, guessed | self.values, row)
        if plain is None:
            return None
        settings, problems = parse(Settings, plain)
        self._note((problem for problem in problems if problem.key not in guessed), row)
        # base's values replace wrong ones, so that problems between keys are reported too
        checked = settings or parse(Settings, _with_base_values(plain, base, problems))[0]
        if checked is not None:
            wrong = {*guessed, *(problem.key for problem in problems)}
            between = [*(checked.trial.problems() if self.trains else []), *study_problems(checked)]
            self._note((problem for problem in between if self._stands_alone(problem.key, row, wrong)), row)
        return settings and absolute(settings, self.here)

    def _stands_alone(self, key: str, row: str, wrong: set[str]) -> bool:
        """Whether a conflict between keys does not follow from a problem of the key or of its group."""
        told = {name for place, name in self.told if place in ("", row)}
        return key not in wrong and key.split(".")[0] not in told

    def _note(self, problems: Iterable[Problem], row: str) -> None:
        """Keep the problems, each with the place that set the value."""
        choices = {**self.library.defaults, **self.chosen, "row": row}
        for problem in problems:
            key = problem.key
            if self.told.isdisjoint({("", key), (row, key)}):
                place = problem.place or self._source(key) or self.library.locate(key, choices)
                near = (problem.found == UNKNOWN_KEY and other_name(key)) or problem.nearest
                self.problems.append(replace(problem, place=place, nearest=near))

    def _refuse_changed_keys(self, changes: dict[str, dict[str, Any]]) -> None:
        """An override of a key that a row changes would erase the row's difference."""
        for key in self.overrides.values:
            rows = [row for row, changed in changes.items() if key in changed]
            if rows:
                found = f"is changed by row{'s' * (len(rows) > 1)} {', '.join(rows)}"
                allowed = "remove the override, or select rows that keep base's value"
                self.problems.append(Problem(key, found, allowed, None, self._source(key)))

    def _source(self, key: str) -> str | None:
        """Where the value of an override comes from; None if the key has no override."""
        if key in self.typed.values:
            return COMMAND_LINE
        return "study.json" if key in self.overrides.values else None

    def _refuse_scale_in_row(self, row: str, scale: Any) -> None:
        """A row holds values at the paper's size; a scale applies to all rows."""
        found, allowed = f"is set by row {row}", "set the scale of all rows with scale=NAME or scale.width=N"
        keys = [f"scale.{name}" for name in scale] if isinstance(scale, dict) else ["scale"] * (scale is not None)
        place = {key: self.library.locate(key, {"row": row}) for key in keys}
        self._note((Problem(key, found, allowed, None, place[key]) for key in keys), row)

    def _refuse_foreign_keys(self, row: str, base: dict[str, Any], tree: dict[str, Any]) -> None:
        """A row with other runs or another cluster would leave its study."""
        groups = [group for group in tree if group not in (*WRITTEN_BY_ROWS, "row", "scale")]
        found, allowed = f"is changed by row {row}", f"a row may change only {', '.join(WRITTEN_BY_ROWS)}"
        self._note((Problem(key, found, allowed) for key in _differences(base, tree, groups)), row)


def _differences(base: dict[str, Any], row: dict[str, Any], groups: Iterable[str]) -> dict[str, Any]:
    """Dotted keys and values by which a row differs from base in these groups."""
    return {
        f"{group}.{key}": value
        for group in groups
        if isinstance(row.get(group), dict) and isinstance(base.get(group), dict)
        for key, value in row[group].items()
        if value != base[group].get(key, object())
    }


def _with_base_values(plain: dict[str, Any], base: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """A copy with base's value for every key that has a problem, and without keys that base does not have."""
    repaired = copied(plain)
    for problem in problems:
        group, _, name = problem.key.partition(".")
        if not name or not isinstance(repaired.get(group), dict):
            repaired[group] = copied(base.get(group))
        elif name in base.get(group, {}):
            repaired[group][name] = base[group][name]
        else:
            repaired[group].pop(name, None)
    return {group: values for group, values in repaired.items() if group in base}
