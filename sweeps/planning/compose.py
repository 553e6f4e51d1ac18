"""Rows of a study from ``conf/`` and the command line: base → row → scale → overrides, checked, all errors at once."""

from functools import cached_property
from pathlib import Path
from typing import Any

from sweeps.planning.composition import ComposedRow as ComposedRow
from sweeps.planning.composition import Composition as Composition
from sweeps.planning.found_problems import FoundProblems
from sweeps.planning.layers import Layers, Tree, assigned, copied
from sweeps.planning.made_rows import MadeRows, made_rows
from sweeps.planning.overrides import COMMAND_LINE, parse_overrides
from sweeps.planning.plain_yaml import refers
from sweeps.planning.recorded import Record, dotted, nested
from sweeps.planning.row_rules import differences, erased
from sweeps.planning.row_selection import ALL, selected
from sweeps.planning.scaling import Kept, Layered, apply_scale, keep_differences
from sweeps.planning.settings import MAKERS, Settings, absolute, parse_scale, parse_settings
from sweeps.planning.study_problems import study_problems
from sweeps.planning.task_named import library_of
from sweeps.planning.unscaled import before_scaling
from sweeps.planning.yaml_content import BASE
from sweeps.schema import Problem, RefusedError


def compose_sweep(overrides: list[str], here: Path | None = None, record: Record | None = None) -> Composition:
    """Every row that ``sweep.rows``, ``sweep.vary`` and ``sweep.grid`` name or make, after those of ``record``.

    Raises RefusedError with every problem.
    """
    composer = _Composer(overrides, here or Path.cwd(), record=record)
    own_seed = composer.schema.seed
    row, seed = composer.typed.choices.get("row"), composer.typed.values.get(own_seed or "")
    if row is not None:
        allowed = "for a sweep, use sweep.rows='[base, …]'"
        composer.found.refuse("row", "selects the row of `ablate train`", allowed, f"sweep.rows=[{row}]")
    if own_seed is not None and seed is not None:
        allowed = "for a sweep, use sweep.seeds=[1,2,3]"
        composer.found.refuse(own_seed, "is set by the sweep", allowed, f"sweep.seeds=[{seed}]")
    composer.make_rows()
    names = composer.row_names() if row is None else composer.one_row(row)
    return composer.compose([*(record.rows if record else ()), *names])


def compose_row(
    overrides: list[str], here: Path | None = None, record: Record | None = None, row: str = "base"
) -> Composition:
    """The one row that ``row=`` names, by default ``row``, after those of ``record``.

    Raises RefusedError with every problem.
    """
    composer = _Composer(overrides, here or Path.cwd(), record=record, one_row=True)
    seed = composer.schema.seed
    for key, single in (("sweep.rows", "row"), ("sweep.seeds", seed or "sweep.seeds")):
        listed = composer.typed.values.get(key)
        several = isinstance(listed, list) and len(listed) > 1
        if key in composer.typed.values and (key != single or several):
            meant = f"{single}={listed[0]}" if isinstance(listed, list) and len(listed) == 1 else None
            allowed = f"for one trial, use row=NAME and {seed or 'sweep.seeds'}={'N' if seed else '[N]'}"
            composer.found.refuse(key, "is for `ablate sweep`", allowed, meant)
    composer.make_rows()
    return composer.compose([*(record.rows if record else ()), *composer.one_row(composer.chosen.get("row", row))])


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
        self.here, self.trains, self.record = here, trains, record
        self.library = library_of(overrides, here, record, trains)
        self.schema = self.library.schema
        self.typed, problems = parse_overrides(overrides, self.library, record.rows if record else (), one_row)
        decode = "decode" in self.typed.choices
        self.overrides = self.typed if record is None else self.typed.after(record.options, record.overrides(decode))
        self.chosen, self.values = dict(self.overrides.choices), dict(self.overrides.values)
        self.lists = {key: self.values.pop(key) for key in MAKERS if key in self.values}
        study = record.study.folder if record else None
        self.found = FoundProblems(self.typed, self.overrides, problems, self.library, study)
        needed = [("row", BASE)] if self.library.at_root else [(BASE, BASE), ("row", BASE)]
        readable = [self.found.readable(group, name) for group, name in needed]
        if not all(readable):
            raise RefusedError(dict.fromkeys(self.found.every))
        for group in self.library.groups:
            option = self.chosen.get(group, self.library.defaults[group])
            if group != "row" and not self.found.readable(group, option):
                self.chosen.pop(group, None)  # the default lets the rest be checked
        self.found.choices = {**self.library.defaults, **self.chosen}
        self.layers, self.made = Layers(self.library, self.chosen), MadeRows()
        self.kept: dict[str, Kept] = {}  # what became of each row's differences in keys that the scale sets
        self.unscaled: dict[str, str] = {}  # each row's change at the paper's size, where a scale touches it
        if self.values.get("sweep.rows") == ALL:
            self.values["sweep.rows"] = self._listed

    def make_rows(self) -> None:
        """The rows of ``sweep.vary`` and ``sweep.grid``, which then count as rows with a file."""
        asked = self.layers.lists | self.lists
        if asked and self._base is not None:
            self.made = self.found.made = made_rows(asked, self._base.paper, self.library, self._maker_place)
            self.found.note(self.made.problems, "")

    def _maker_place(self, key: str) -> str | None:
        """Where a key under ``sweep`` was written."""
        if key.startswith(tuple(self.lists)):
            return COMMAND_LINE
        return self.library.locate(key, {"sweep": self.layers.choices["sweep"]})

    def row_names(self) -> list[str]:
        """All rows of a sweep, without unknown names, which are refused. Empty if only the record names rows."""
        if self.record and not self.typed.names_rows and not self.made.asked:
            return []
        listed = self.values.get("sweep.rows", self._listed)
        if self.made.asked and "sweep.rows" not in self.values and (listed is None or "sweep" not in self.chosen):
            listed = ["base"]
        known, problems = selected(listed, self._exists, self.library)
        self.found.note(problems, "")
        names = list(dict.fromkeys([*known, *self.made.rows]))
        if self.made.asked or not isinstance(listed, list):
            self.values["sweep.rows"] = names
        return names

    def one_row(self, name: str) -> list[str]:
        """The row of `ablate train`. Lists of values need the name of one of their rows."""
        typed = [key for key in self.made.asked if key in self.typed.values]
        if not self._exists(name):
            unknown = self.library.unknown_option("row", name, COMMAND_LINE)
            self.found.every += [self.made.offered(unknown, name)] if unknown else []
            return []
        if name not in self.made.rows:
            allowed = f"for one trial, name its row, such as row={next(iter(self.made.rows), 'NAME')}"
            for key in typed:
                self.found.refuse(key, "makes rows for `ablate sweep`", allowed, None)
        return [name]

    def compose(self, asked: list[str]) -> Composition:
        """Complete rows. Raises RefusedError with every problem found so far."""
        names = self._with_values(list(dict.fromkeys(asked)))
        wanted = [BASE, *(name for name in names if name != BASE and self.found.readable("row", name))]
        trees = {name: tree for name in wanted if (tree := self._scaled(name)) is not None}
        if BASE not in trees:
            raise RefusedError(dict.fromkeys(self.found.every))
        base = trees[BASE]
        changes = {name: differences(base, tree, self.schema.groups) for name, tree in trees.items()}
        changed = {name: changes[name] for name in names if name in changes}
        self.found.every += erased(changed, self.overrides.values, self.found.source)
        settings = {name: self._settings(name, tree, base) for name, tree in trees.items()}
        if self.found.every:
            raise RefusedError(dict.fromkeys(self.found.every))
        complete = {name: value for name, value in settings.items() if value is not None}
        rows = tuple(self._row(name, complete[name], changes[name]) for name in names)
        listed, made = tuple(map(str, self._listed or ())), tuple(self.made.notes)
        return Composition(rows, complete["base"], listed, self.typed, self.overrides, self.library.ignored, made)

    def _with_values(self, names: list[str]) -> list[str]:
        """The rows that have values in a file or in the record; the others are refused."""
        there = list(filter(self._exists, names))
        for name in names:
            if name not in there:
                file = f"conf/{self.library.folder('row')}/{name}.yaml"
                found = f"includes {name}, which is recorded without values and has no file {file}"
                allowed = "restore the file, or choose another sweep.name"
                self.found.note([Problem("sweep.rows", found, allowed)], name)
        return there

    def _row(self, name: str, settings: Settings, changes: dict[str, Any]) -> ComposedRow:
        own = name in self.library.options("row") and not self.library.is_shipped("row", name)
        kept = self.kept.get(name, Kept())
        lines = self.library.first_line("row", name, [*changes, *kept.left_out]) if own else None
        place = self.made.first_place(name) or lines
        return ComposedRow(name, settings, changes, kept, place, self.unscaled.get(name, ""))

    @cached_property
    def _listed(self) -> Any:
        """``sweep.rows`` from the files: the order of the study's table."""
        return self._read(BASE)["sweep"].get("rows")

    @cached_property
    def _base(self) -> Layered | None:
        """Base before divisions."""
        return self._layered("base")

    def _read(self, row: str) -> Tree:
        """The files' values of one row, before its scale and before overrides."""
        return self.layers.row(self._own(row))

    def _own(self, row: str) -> Tree:
        """The content of a row's file."""
        return self.made.rows[row].tree if row in self.made.rows else self.layers.row_file(row)

    def _layered(self, row: str) -> Layered | None:
        """One row without and with its scale. References resolve to values at the paper's size."""
        paper, scales = self._read(row), {k: v for k, v in self.values.items() if k.startswith("scale.")}
        scaled = self.layers.scaled(paper)
        divisors = {"scale": scaled["scale"]} if "scale" in scaled else {}
        trees = [self._assigned(tree, scales, row) for tree in (paper | divisors, scaled)]
        return None if trees[0] is None or trees[1] is None else Layered(trees[0], trees[1])

    def _scaled(self, row: str) -> Tree | None:
        """One row as plain data after scaling, before all other overrides."""
        files = (*self.made.rows, *self.library.options("row"))
        if row not in files and self._is_recorded(row):
            return self._recorded_row(row)
        layered, base = (self._base if row == "base" else self._layered(row)), self._base
        if layered is None or base is None:
            return None
        tree = copied(layered.scaled)
        scale, problems = parse_scale(self.library.task, tree["scale"]) if "scale" in tree else (None, [])
        if scale is not None:
            row_now = Layered(layered.paper, tree)
            kept = self.kept[row] = keep_differences(row_now, base, scale, self.schema)
            changed = differences(base.paper, layered.paper, self.schema.groups)
            undivided = apply_scale(tree, scale, self.schema, changed)
            # a fault of the scale is none of the rows
            problems = apply_scale(copied(base.scaled), scale, self.schema) or [*kept.problems, *undivided]
            self.unscaled[row] = before_scaling(self._own(row), row_now, base, self.schema)
        self.found.note(problems, row)
        return tree

    def _recorded_row(self, row: str) -> Tree | None:
        """A row without a file, as the study has recorded it."""
        base = self._scaled("base")
        if base is None or self.record is None:
            return None
        recorded, tree = self.record.rows[row], copied(base)
        for group, values in nested(recorded.values or {}).items():
            tree[group] |= values
        self.unscaled[row] = recorded.before_scaling
        self.found.recorded.add(row)
        return {**tree, "row": {"change": "", "published": {}, **recorded.about}}

    def _exists(self, row: str) -> bool:
        made = self._is_recorded(row) or row in self.made.rows
        return made or self.library.unknown_option("row", row, None) is None

    def _is_recorded(self, row: str) -> bool:
        return self.record is not None and row in self.record.rows and self.record.rows[row].values is not None

    def _assigned(self, tree: Tree, values: dict[str, Any], row: str) -> Tree | None:
        """A copy with these dotted keys set and every reference resolved; None, with a problem noted, if one fails."""
        tree = assigned(tree, values)
        if not refers(tree):
            return tree
        from sweeps.planning.references import resolved  # imports OmegaConf

        plain, problems = resolved(tree)
        self.found.note(problems, row)
        return plain

    def _settings(self, row: str, tree: dict[str, Any], base: dict[str, Any]) -> Settings | None:
        """One complete row. Overrides are final values."""
        plain = self._assigned(tree, self.values, row)
        if plain is None:
            return None
        settings, problems = parse_settings(self.library.source, plain)
        self.found.note(problems, row)
        # base's values replace wrong ones, so that conflicts between the others are reported too
        wrong = {problem.key for problem in problems}
        usual = dotted({group: values for group, values in base.items() if isinstance(values, dict)})
        repaired = assigned(plain, {key: value for key, value in usual.items() if key in wrong})
        checked = settings or parse_settings(self.library.source, repaired)[0]
        self.found.note((each for each in self._between(checked) if each.key not in wrong), row)
        return settings and absolute(settings, self.here)

    def _between(self, settings: Settings | None) -> list[Problem]:
        """Conflicts between keys that are each valid alone."""
        if settings is None:
            return []
        return [*(self.library.task.problems(settings.trial) if self.trains else []), *study_problems(settings)]
