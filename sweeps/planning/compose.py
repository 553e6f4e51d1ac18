"""Rows of a study from ``conf/`` and the command line: base → row → scale → overrides, checked, all errors at once."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeps.planning.layers import LayerError, Layers, Tree
from sweeps.planning.overrides import COMMAND_LINE, Overrides, parse_overrides
from sweeps.planning.recorded import Record, nested
from sweeps.planning.scaling import WRITTEN_BY_ROWS, Kept, Layered, apply_scale, keep_differences
from sweeps.planning.settings import Scale, Settings, absolute
from sweeps.planning.study_problems import study_problems
from sweeps.planning.yaml_files import Library
from transformer.schema import Problem, RefusedError, parse

ALL = "all"
"""``sweep.rows=all``: the rows that the sweep's file lists."""


@dataclass(frozen=True)
class ComposedRow:
    """One row, and the dotted keys by which it differs from base before overrides."""

    name: str
    settings: Settings
    changes: dict[str, Any]
    kept: Kept = field(default_factory=Kept)


@dataclass(frozen=True)
class Composition:
    """The rows of a study. Their changes are relative to ``base``; ``listed`` is the order of the table.

    ``typed`` holds the overrides of the command line; ``overrides`` adds those that the study has recorded.
    """

    rows: tuple[ComposedRow, ...]
    base: Settings
    listed: tuple[str, ...]
    typed: Overrides = field(default_factory=Overrides)
    overrides: Overrides = field(default_factory=Overrides)

    @property
    def notes(self) -> list[str]:
        """What became of row differences in keys that the scale sets."""
        scale, steps = self.base.scale.name, self.base.train.steps
        kept = [f"{row.name} {key} {value}" for row in self.rows for key, value in row.kept.values.items()]
        left_out = [f"{key} of {row.name}" for row in self.rows for key in row.kept.left_out]
        notes = [f"Scale {scale} sets these, so rows keep them in proportion to base: {', '.join(kept)}."] * bool(kept)
        ignored = f"At scale {scale} every row trains for {steps} steps; ignored: {', '.join(left_out)}."
        return notes + [ignored] * bool(left_out)

    @property
    def shared(self) -> Settings:
        """Settings that no row may change: cluster, sweep, tracking, paths."""
        return self.rows[0].settings


def compose_sweep(overrides: list[str], here: Path | None = None, record: Record | None = None) -> Composition:
    """Every row that ``sweep.rows`` names, after those of ``record``. Raises RefusedError with every problem."""
    composer = _Composer(overrides, here or Path.cwd(), record=record)
    if "row" in composer.typed.choices:
        composer.refuse("row", "selects the row of `ablate train`", "for a sweep, use sweep.rows='[base, …]'")
    if "train.seed" in composer.typed.values:
        composer.refuse("train.seed", "is set by the sweep", "for a sweep, use sweep.seeds=[1,2,3]")
    return composer.compose([*(record.rows if record else ()), *composer.row_names()])


def compose_row(
    overrides: list[str], here: Path | None = None, record: Record | None = None, row: str = "base"
) -> Composition:
    """The one row that ``row=`` names, by default ``row``, after those of ``record``.

    Raises RefusedError with every problem.
    """
    composer = _Composer(overrides, here or Path.cwd(), record=record)
    for key in ("sweep.rows", "sweep.seeds"):
        if key in composer.typed.values:
            composer.refuse(key, "is for `ablate sweep`", "for one trial, use row=NAME and train.seed=N")
    return composer.compose([*(record.rows if record else ()), composer.typed.choices.get("row", row)])


def compose_settings(overrides: list[str], here: Path | None = None, record: Record | None = None) -> Settings:
    """A study's name and location, for verbs that only read it: its trials may be incomplete.

    Raises RefusedError.
    """
    return _Composer(overrides, here or Path.cwd(), trains=False, record=record).compose(["base"]).shared


class _Composer:
    """Collects problems while it composes, to report them together."""

    def __init__(self, overrides: list[str], here: Path, trains: bool = True, record: Record | None = None) -> None:
        self.here, self.library, self.trains, self.record = here, Library(here), trains, record
        self.typed, self.problems = parse_overrides(overrides, self.library, record.rows if record else ())
        self.problems += [*self.library.shadows(), *self.library.broken.values()]
        for group, name in list(self.typed.choices.items()):
            if group != "row" and self.library.is_broken(group, name):
                del self.typed.choices[group]  # reported above; the default lets the rest be checked
        self.overrides = self.typed if record is None else self.typed.after(record.options, self._recorded(record))
        self.layers = Layers(self.library, self.overrides)
        if self.overrides.values.get("sweep.rows") == ALL:
            self.overrides.values["sweep.rows"] = self._listed

    def _recorded(self, record: Record) -> dict[str, Any]:
        """The study's values. A typed option of ``decode`` replaces its whole group, as in a new study."""
        replaced = "decode." if "decode" in self.typed.choices else None
        values = {key: value for key, value in record.values.items() if not (replaced and key.startswith(replaced))}
        return values | {"sweep.name": record.study.name}

    def refuse(self, key: str, found: str, allowed: str) -> None:
        self.problems.append(Problem(key, found, allowed, None, COMMAND_LINE))

    def row_names(self) -> list[str]:
        """``sweep.rows`` without unknown names, which are refused. Empty if only the record names rows."""
        if self.record and not self.typed.names_rows:
            return []
        asked = self.overrides.values.get("sweep.rows", self._listed)
        if not isinstance(asked, list) or not asked:
            allowed = "must be a list of rows, such as [base,big], or all"
            self._note([Problem("sweep.rows", f"is {asked}", allowed)], "base")
            return []
        names = [str(name) for name in asked]
        for name in names:
            unknown = None if self._is_recorded(name) else self.library.unknown_option("row", name, None)
            self._note([replace(unknown, key="sweep.rows")] if unknown else [], "base")
        for name in sorted({name for name in names if names.count(name) > 1}):
            found = f"lists {name} {names.count(name)} times"
            self._note([Problem("sweep.rows", found, "must list each row once")], "base")
        return [name for name in dict.fromkeys(names) if self._is_recorded(name) or name in self.library.options("row")]

    def compose(self, asked: list[str]) -> Composition:
        """Complete rows. Raises RefusedError with every problem found so far."""
        names = self._with_values(list(dict.fromkeys(asked)))
        wanted = [name for name in dict.fromkeys(["base", *names]) if not self.library.is_broken("row", name)]
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
        rows = tuple(ComposedRow(name, complete[name], changes[name], self.kept.get(name, Kept())) for name in names)
        return Composition(rows, complete["base"], tuple(map(str, self._listed or ())), self.typed, self.overrides)

    def _with_values(self, names: list[str]) -> list[str]:
        """The rows that have values in a file or in the record; the others are refused."""
        there = [name for name in names if self._is_recorded(name) or name in self.library.options("row")]
        for name in names:
            if name not in there:
                found = f"includes {name}, which is recorded without values and has no file conf/row/{name}.yaml"
                self._note([Problem("sweep.rows", found, "restore the file, or choose another sweep.name")], name)
        return there

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
            return self.layers.row(row)
        except LayerError as error:
            self.problems.append(error.problem)
            return None

    def _layered(self, row: str) -> Layered | None:
        """One row without and with its scale. References resolve to values at the paper's size."""
        paper, scales = self._read(row), {k: v for k, v in self.overrides.values.items() if k.startswith("scale.")}
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
        tree = copy.deepcopy(layered.scaled)
        scale, problems = parse(Scale, tree.get("scale"), "scale")
        if scale is not None:
            kept = self.kept[row] = keep_differences(Layered(layered.paper, tree), base, scale)
            problems = [*_seed_problems(layered, base), *kept.problems, *apply_scale(tree, scale)]
        self._note(problems, row)
        return tree

    def _recorded_row(self, row: str) -> Tree | None:
        """A row without a file, as the study has recorded it."""
        base = self._scaled("base")
        if base is None or self.record is None:
            return None
        recorded, tree = self.record.rows[row], copy.deepcopy(base)
        for group, values in nested(recorded.values or {}).items():
            tree[group] |= values
        change = {"change": "", "published": {"ppl": None, "bleu": None, "params_m": None}}
        return {**tree, "row": {**change, **recorded.about}}

    def _is_recorded(self, row: str) -> bool:
        return self.record is not None and row in self.record.rows and self.record.rows[row].values is not None

    def _assigned(self, tree: Tree, values: dict[str, Any], row: str) -> Tree | None:
        """A copy with these dotted keys set and every reference resolved; None, with a problem noted, if one fails."""
        tree = copy.deepcopy(tree)
        for key, value in values.items():
            *groups, name = key.split(".")
            node: Any = tree
            for group in groups:
                node = node.get(group) if isinstance(node, dict) else None
            if isinstance(node, dict):
                node[name] = value
        if not _refers(tree):
            return tree
        try:
            resolved = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
        except OmegaConfBaseException as error:
            guess = next((key for key, value in values.items() if "${" in str(value)), f"row {row}")
            found = f"cannot be resolved: {str(error).splitlines()[0]}"
            key = str(error.full_key or guess)
            self._note([Problem(key, found, "a reference must look like ${group.key} and name a key that exists")], row)
            return None
        assert isinstance(resolved, dict)
        return {str(key): value for key, value in resolved.items()}

    def _settings(self, row: str, tree: dict[str, Any], base: dict[str, Any]) -> Settings | None:
        """One complete row. Overrides are final values."""
        plain = self._assigned(tree, self.overrides.values, row)
        if plain is None:
            return None
        settings, problems = parse(Settings, plain)
        self._note(problems, row)
        # base's values replace wrong ones, so that problems between keys are reported too
        checked = settings or parse(Settings, _with_base_values(plain, base, problems))[0]
        if checked is not None:
            self._note([*(checked.trial.problems() if self.trains else []), *study_problems(checked)], row)
        return settings and absolute(settings, self.here)

    def _note(self, problems: Iterable[Problem], row: str) -> None:
        """Keep the problems, each with the place that set the value."""
        choices = {**self.library.defaults, **self.overrides.choices, "row": row}
        for problem in problems:
            key = problem.key
            place = self._source(key) or self.library.locate(key, choices)
            self.problems.append(replace(problem, place=problem.place or place))

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


def _refers(value: Any) -> bool:
    """Whether any text in the value may refer to another key."""
    if isinstance(value, dict | list):
        return any(map(_refers, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and "${" in value


def _seed_problems(row: Layered, base: Layered) -> list[Problem]:
    """A row sets no seed: the sweep sets the seeds of all rows."""
    seeds = [tree["train"].get("seed") for tree in (row.paper, base.paper) if isinstance(tree.get("train"), dict)]
    if len(seeds) < 2 or seeds[0] == seeds[1]:
        return []
    return [Problem("train.seed", "is set by a row", "set the seeds of all rows with sweep.seeds=[1,2,3]")]


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
    repaired = copy.deepcopy(plain)
    for problem in problems:
        group, _, name = problem.key.partition(".")
        if not name or not isinstance(repaired.get(group), dict):
            repaired[group] = copy.deepcopy(base.get(group))
        elif name in base.get(group, {}):
            repaired[group][name] = base[group][name]
        else:
            repaired[group].pop(name, None)
    return {group: values for group, values in repaired.items() if group in base}
