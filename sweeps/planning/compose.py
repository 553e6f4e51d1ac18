"""The rows of a study: composed by Hydra, scaled, with overrides on top, checked; all errors at once."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeps.config.files import examined
from sweeps.config.folders import BASE
from sweeps.config.hydra import Tree, option, resolved
from sweeps.config.overrides import Overrides, parse_overrides
from sweeps.config.places import COMMAND_LINE, place_of, place_of_missing
from sweeps.config.scale import Kept, Layered, apply_scale, before_scaling, keep_differences
from sweeps.config.schema import task_card
from sweeps.config.settings import MAKERS, Settings, absolute, parse_scale, parse_settings
from sweeps.config.study_problems import study_problems
from sweeps.config.suggest import other_name
from sweeps.config.trees import assigned, copied, differences, dotted, merged, nested
from sweeps.config.vary import MadeRow, MadeRows, RowMaker
from sweeps.planning.naming import other_study
from sweeps.planning.recorded import Record
from sweeps.planning.task_of import library_of
from sweeps.schema import IS_MISSING, UNKNOWN_KEY, Problem, RefusedError
from tracking.caption import scaling_note

ALL = "all"
"""``sweep.rows=all``: the rows that the sweep's file lists. In such a file: base, and every row with a file."""


@dataclass(frozen=True)
class ComposedRow:
    """One row, and the dotted keys by which it differs from base before overrides."""

    name: str
    settings: Settings
    changes: dict[str, Any]
    kept: Kept = field(default_factory=Kept)
    place: str | None = None  # file:line of the user's file, or the command line that made the row
    before_scaling: str = ""  # its change before scaling, if the scale touches a key that it sets


@dataclass(frozen=True)
class Composition:
    """The rows of a study. Their changes are relative to ``base``; ``listed`` is the order of the table.

    ``typed`` holds the overrides of the command line; ``overrides`` adds those that the study has recorded.
    ``ignored`` is a file that looks like the base of this study and is not read. ``made`` tells of rows without files.
    """

    rows: tuple[ComposedRow, ...]
    base: Settings
    listed: tuple[str, ...]
    typed: Overrides = field(default_factory=Overrides)
    overrides: Overrides = field(default_factory=Overrides)
    defaults: dict[str, str] = field(default_factory=dict)
    ignored: str | None = None
    made: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What became of row differences in keys that the scale sets, and of the user's file."""
        scale, steps = self.base.scale.name, self.base.source.task.steps(self.base.trial)
        kept = [f"{row.name} {key} {value}" for row in self.rows for key, value in row.kept.values.items()]
        left_out = [f"{key} of {row.name}" for row in self.rows for key in row.kept.left_out]
        notes = [f"Scale {scale} sets these, so rows keep them in proportion to base: {', '.join(kept)}."] * bool(kept)
        ignored = f"At scale {scale} every row trains for {steps} steps; ignored: {', '.join(left_out)}."
        notes += [ignored] * bool(left_out)
        notes += self.made
        return notes + [f"{self.ignored} is not read: change base by a row, a scale or overrides."] * bool(self.ignored)

    def names(self, rows: Collection[str]) -> list[str]:
        """A line that explains the names of those of the rows which a scale makes other values of."""
        changes = {row.name: row.before_scaling for row in self.rows if row.before_scaling and row.name in rows}
        note = scaling_note(task_card(self.base.source.task), changes)
        return [note] * bool(note)

    @property
    def shared(self) -> Settings:
        """Settings that no row may change: cluster, sweep, tracking, paths."""
        return self.rows[0].settings


def compose_sweep(overrides: list[str], here: Path | None = None, record: Record | None = None) -> Composition:
    """Every row that the overrides name or make, after those of ``record``. Raises RefusedError with every problem."""
    composer = _Composer(overrides, here or Path.cwd(), record, sweeps=True)
    composer.take_seeds()
    composer.make_rows()
    names = composer.row_names()
    return composer.compose([*(record.rows if record else ()), *names])


def compose_row(
    overrides: list[str], here: Path | None = None, record: Record | None = None, row: str = BASE
) -> Composition:
    """The one row that ``row=`` names, by default ``row``, after those of ``record``.

    Raises RefusedError with every problem.
    """
    composer = _Composer(overrides, here or Path.cwd(), record)
    composer.refuse_several()
    composer.make_rows()
    return composer.compose([*(record.rows if record else ()), *composer.one_row(row)])


def compose_settings(overrides: list[str], here: Path | None = None, record: Record | None = None) -> Settings:
    """A study's name and location, for verbs that only read it: its trials may be incomplete.

    Raises RefusedError.
    """
    return _Composer(overrides, here or Path.cwd(), record, trains=False).compose([BASE]).shared


class _Composer:
    """Collects problems while it composes, to report them together."""

    def __init__(
        self, overrides: list[str], here: Path, record: Record | None, trains: bool = True, sweeps: bool = False
    ) -> None:
        self.here, self.record, self.trains = here, record, trains
        self.library = library_of(overrides, here, record, trains)
        self.schema = self.library.schema
        self.typed, problems = parse_overrides(overrides, self.library, tuple(record.rows) if record else (), sweeps)
        decode = "decode" in self.typed.choices
        self.overrides = self.typed if record is None else self.typed.after(record.options, record.overrides(decode))
        self.chosen, self.values = dict(self.overrides.choices), dict(self.overrides.values)
        self.lists = {key: self.values.pop(key) for key in MAKERS if key in self.values}
        self.made, self.every = MadeRows(), problems
        self.kept: dict[str, Kept] = {}  # what became of each row's differences in keys that the scale sets
        self.unscaled: dict[str, str] = {}  # each row's change at the paper's size, where a scale touches it
        self._papers: dict[str, Tree | None] = {}
        self._wrong_in_base: set[str] = set()
        self._check_files()
        if self.values.get("sweep.rows") == ALL:
            self.values["sweep.rows"] = self._listed

    def take_seeds(self) -> None:
        """The task's own key for a seed lists the seeds of a sweep."""
        key = self.schema.seed
        values = self.typed.sweeps.get(key or "", [self.typed.values[key]] if key in self.typed.values else None)
        if key is None or values is None:
            return
        if "sweep.seeds" in self.typed.values:
            self.refuse(key, "is given beside sweep.seeds", "give the seeds once, with sweep.seeds=[1,2,3]")
        self.values["sweep.seeds"] = values
        self.values.pop(key, None)

    def refuse_several(self) -> None:
        """What is for several trials, where one is asked for."""
        seed = self.schema.seed
        for key, single in (("sweep.rows", "row"), ("sweep.seeds", seed or "sweep.seeds")):
            listed = self.typed.values.get(key)
            several = isinstance(listed, list) and len(listed) > 1
            if key in self.typed.values and (key != single or several):
                meant = f"{single}={listed[0]}" if isinstance(listed, list) and len(listed) == 1 else None
                allowed = f"for one trial, use row=NAME and {seed or 'sweep.seeds'}={'N' if seed else '[N]'}"
                self.refuse(key, "is for `ablate sweep`", allowed, meant)

    def make_rows(self) -> None:
        """The rows of ``sweep.vary`` and ``sweep.grid``, which then count as rows with a file."""
        asked = self._lists_of_file | self.lists
        if asked and self._maker is not None:
            for key, lists in asked.items():
                self._maker.vary(key, lists)

    def row_names(self) -> list[str]:
        """All rows of a sweep, without unknown names, which are refused. Empty if only the record names rows."""
        if self.record and not self.typed.names_rows and not self.made.asked:
            return self._take_made()
        typed = self.typed.sweeps.get("row") or ([row] if (row := self.typed.choices.get("row")) else None)
        if typed and "sweep.rows" in self.typed.values:
            self.refuse("row", "is given beside sweep.rows", "name all rows in one of them")
        listed = typed or self.values.get("sweep.rows", self._listed)
        swept = {key: each for key, each in self.typed.sweeps.items() if key not in ("row", self.schema.seed)}
        made = bool(self.made.asked or swept)
        if made and not typed and "sweep.rows" not in self.values and (listed is None or "sweep" not in self.chosen):
            listed = [BASE]
        known = self._selected(listed)
        names = [*self._swept(known, swept), *self.made.rows] if swept else [*known, *self.made.rows]
        if (typed or swept) and BASE not in names:
            names = [BASE, *names]
            self.made.notes.append("Base is added, with which each row is compared; sweep.rows names rows without it.")
        names = list(dict.fromkeys([*names, *self._take_made()]))
        if made or typed or not isinstance(listed, list):
            self.values["sweep.rows"] = names
        return names

    def one_row(self, usual: str) -> list[str]:
        """The row of `ablate train`. Lists of values need the name of one of their rows."""
        name = self.chosen.get("row", usual)
        if not self._exists(name):
            unknown = self.library.folders.unknown_option("row", name, COMMAND_LINE)
            self.every += [self.made.offered(unknown, name)] if unknown else []
            self._take_made()
            return []
        if name not in self.made.rows:
            allowed = f"for one trial, name its row, such as row={next(iter(self.made.rows), 'NAME')}"
            for key in (key for key in self.made.asked if key in self.typed.values):
                self.refuse(key, "makes rows for `ablate sweep`", allowed)
        self._take_made()
        return [name]

    def compose(self, asked: list[str]) -> Composition:
        """Complete rows. Raises RefusedError with every problem found so far."""
        names = self._with_values(list(dict.fromkeys(asked)))
        trees = {name: tree for name in dict.fromkeys([BASE, *names]) if (tree := self._scaled(name)) is not None}
        if BASE not in trees:
            raise RefusedError(dict.fromkeys(self.every))
        base = trees[BASE]
        changes = {name: differences(base, tree, self.schema.groups) for name, tree in trees.items()}
        self._refuse_erased({name: changes[name] for name in names if name in changes})
        settings = {name: self._settings(name, tree, base) for name, tree in trees.items()}
        if self.every:
            raise RefusedError(dict.fromkeys(self.every))
        complete = {name: value for name, value in settings.items() if value is not None}
        rows = tuple(self._row(name, complete[name], changes[name]) for name in names)
        listed, defaults = tuple(map(str, self._listed or ())), self.library.defaults
        ignored, made = self.library.folders.ignored, tuple(self.made.notes)
        return Composition(rows, complete[BASE], listed, self.typed, self.overrides, defaults, ignored, made)

    def refuse(self, key: str, found: str, allowed: str, meant: str | None = None) -> None:
        """Keep a problem of the command line."""
        self.every.append(Problem(key, found, allowed, meant, COMMAND_LINE))

    def note(self, problems: Iterable[Problem], row: str) -> None:
        """Keep the problems, each with the place that set the value. A wrong value of base is no fault of the rows."""
        found = [problem for problem in problems if row == BASE or problem.key not in self._wrong_in_base]
        self._wrong_in_base |= {problem.key for problem in found if row == BASE}
        for problem in found:
            near = (problem.found == UNKNOWN_KEY and other_name(problem.key, self.library.keys)) or problem.nearest
            place = problem.place or self._place(problem, row)
            allowed = f"{problem.allowed}{self._way_out(place)}"
            self.every.append(replace(problem, allowed=allowed, place=place, nearest=near))

    # Files

    def _check_files(self) -> None:
        """The form of the user's files. Raises RefusedError if base has none that can be read."""
        if not self._readable("", BASE):
            raise RefusedError(dict.fromkeys(self.every))
        for group in self.library.groups:
            name = self.chosen.get(group, self.library.defaults[group])
            if group != "row" and not self._readable(group, name):
                self.chosen.pop(group, None)  # the default lets the rest be checked

    def _readable(self, group: str, name: str) -> bool:
        """Whether the option's file can be read. Its problems are kept."""
        path = f"{group}/{name}".lstrip("/")
        self.every += self.library.folders.shadowing(path)
        file = self.library.folders.find(path)
        if file is None or not self.library.folders.is_own(file):
            return True
        try:
            self.every += examined(file, self.library.folders.show(file), group, self.schema)
        except RefusedError as error:
            self.every += error.problems
            return False
        return True

    def _options(self, row: str, more: Mapping[str, str] | None = None) -> list[str]:
        """What Hydra composes a row from, but for the scale."""
        chosen = {key: name for key, name in {**self.chosen, **(more or {})}.items() if key not in ("row", "scale")}
        return [*(option(group, name) for group, name in chosen.items()), option("row", row)]

    @property
    def _scale_option(self) -> list[str]:
        return [option("scale", self.chosen["scale"])] if "scale" in self.chosen else []

    def _composed(self, *options: str) -> Tree | None:
        """As Hydra composes it, without the lists of which rows are made; a problem is kept."""
        try:
            tree = copied(self.library.hydra.compose(*options).tree)
        except RefusedError as error:
            self.every += error.problems
            return None
        tree["sweep"] = {key: value for key, value in tree["sweep"].items() if f"sweep.{key}" not in MAKERS}
        if tree["sweep"].get("rows") == ALL:
            tree["sweep"]["rows"] = list(dict.fromkeys([BASE, *self.library.folders.options("row")]))
        return tree

    @cached_property
    def _lists_of_file(self) -> Tree:
        """The lists of values in the sweep's file, of which rows are made, by dotted key."""
        sweep = self.library.hydra.compose(*self._options(BASE), *self._scale_option).tree["sweep"]
        return {key: sweep[key.removeprefix("sweep.")] for key in MAKERS if sweep.get(key.removeprefix("sweep."))}

    @cached_property
    def _listed(self) -> Any:
        """``sweep.rows`` from the files: the order of the study's table."""
        base = self._base
        return base.scaled["sweep"].get("rows") if base is not None else None

    # One row

    def _paper(self, row: str) -> Tree | None:
        """A row before its scale, with its references."""
        if row not in self._papers:
            made = self.made.rows.get(row)
            self._papers[row] = self._of_made(made) if made else self._of_file(row)
        return self._papers[row]

    def _of_file(self, row: str) -> Tree | None:
        return self._composed(*self._options(row), "~scale") if self._readable("row", row) else None

    def _of_made(self, made: MadeRow) -> Tree | None:
        """As if a file had been written for the row."""
        same = self._paper(made.of) if not made.options else None
        of = same or self._composed(*self._options(made.of, made.options), "~scale")
        if of is None:
            return None
        group = made.group or of["row"].get("group")
        return merged(of, nested(made.values)) | {"row": {"group": group}}

    @cached_property
    def _scale(self) -> Tree:
        """What the scale sets, with its references: the differences that it makes to base."""
        base, scaled = self._paper(BASE), self._composed(*self._options(BASE), *self._scale_option)
        return {} if base is None or scaled is None else _overlay(base, scaled)

    @cached_property
    def _base(self) -> Layered | None:
        return self._layered(BASE)

    def _layered(self, row: str) -> Layered | None:
        """One row without and with its scale. References resolve to values at the paper's size."""
        paper = self._paper(row)
        if paper is None or not self._scale:
            return None
        divisors = {key: value for key, value in self.values.items() if key.startswith("scale.")}
        scaled = merged(paper, self._scale)
        whole = [self._resolved(assigned(each, divisors), row) for each in (paper | {"scale": scaled["scale"]}, scaled)]
        return None if whole[0] is None or whole[1] is None else Layered(whole[0], whole[1])

    def _scaled(self, row: str) -> Tree | None:
        """One row as plain data after scaling, before all other overrides."""
        if self._is_recorded(row) and row not in self.made.rows and row not in self.library.folders.options("row"):
            return self._recorded_row(row)
        layered, base = (self._base if row == BASE else self._layered(row)), self._base
        if layered is None or base is None:
            return None
        tree = copied(layered.scaled)
        scale, problems = parse_scale(self.library.task, tree["scale"])
        if scale is not None:
            now = Layered(layered.paper, tree)
            kept = self.kept[row] = keep_differences(now, base, scale, self.schema)
            changed = differences(base.paper, layered.paper, self.schema.groups)
            undivided = apply_scale(tree, scale, self.schema, changed)
            # a fault of the scale is none of the rows
            problems = apply_scale(copied(base.scaled), scale, self.schema) or [*kept.problems, *undivided]
            self.unscaled[row] = before_scaling(now, base, self.schema)
        self.note(problems, row)
        made = self.made.rows.get(row)
        return assigned(tree, made.final) if made else tree

    def _recorded_row(self, row: str) -> Tree | None:
        """A row without a file, as the study has recorded it."""
        base = self._scaled(BASE)
        if base is None or self.record is None:
            return None
        recorded, tree = self.record.rows[row], merged(base, nested(self.record.rows[row].values))
        self.unscaled[row] = recorded.before_scaling
        return {**tree, "row": {"change": "", "published": {}, **recorded.about}}

    def _settings(self, row: str, tree: Tree, base: Tree) -> Settings | None:
        """One complete row. Overrides are final values; those that make a row stand above them."""
        final = self.made.rows[row].final if row in self.made.rows else {}
        plain = self._resolved(assigned(tree, self.values | final), row)
        if plain is None:
            return None
        settings, problems = parse_settings(self.library.source, plain)
        self.note(problems, row)
        # base's values replace wrong ones, so that conflicts between the others are reported too
        wrong = {problem.key for problem in problems}
        usual = dotted({group: values for group, values in base.items() if isinstance(values, dict)})
        repaired = assigned(plain, {key: value for key, value in usual.items() if key in wrong})
        checked = settings or parse_settings(self.library.source, repaired)[0]
        if checked is not None:
            between = [*(self.library.task.problems(checked.trial) if self.trains else []), *study_problems(checked)]
            self.note((each for each in between if each.key not in wrong), row)
        return settings and absolute(settings, self.here)

    def _resolved(self, tree: Tree, row: str) -> Tree | None:
        """Without references; None, with its problems kept, if one cannot be resolved."""
        plain, problems = resolved(tree)
        self.note(problems, row)
        return plain

    def _row(self, name: str, settings: Settings, changes: dict[str, Any]) -> ComposedRow:
        kept, made = self.kept.get(name, Kept()), self.made.rows.get(name)
        place = made.place if made else self._first_line(name, [*changes, *kept.left_out])
        return ComposedRow(name, settings, changes, kept, place, self.unscaled.get(name, ""))

    def _first_line(self, row: str, keys: list[str]) -> str | None:
        """The line of the user's own file that sets the first of these keys, or its first line."""
        file = self.library.folders.find(f"row/{row}")
        if file is None or not self.library.folders.is_own(file) or keys:
            return f"{self.library.folders.show(file)}:1" if file and self.library.folders.is_own(file) else None
        return f"{self.library.folders.show(file)}:1"

    # Which rows

    def _exists(self, row: str) -> bool:
        made = self._is_recorded(row) or row in self.made.rows
        return made or row in self.library.folders.options("row")

    def _is_recorded(self, row: str) -> bool:
        return self.record is not None and row in self.record.rows

    def _selected(self, asked: Any) -> list[str]:
        """The rows of a list that exist, each once; names that do not exist or are listed twice are refused."""
        if not isinstance(asked, list) or not asked:
            self.note([Problem("sweep.rows", f"is {asked}", "must be a list of rows, such as [base,big], or all")], "")
            return []
        names = [str(name) for name in asked]
        unknown = [self.library.folders.unknown_option("row", name) for name in names if not self._exists(name)]
        self.note([replace(each, key="sweep.rows") for each in unknown if each], "")
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.note([Problem("sweep.rows", f"lists {name} {names.count(name)} times", "must list each row once")], "")
        return [name for name in dict.fromkeys(names) if self._exists(name)]

    def _swept(self, rows: list[str], swept: dict[str, list[Any]]) -> list[str]:
        return self._maker.sweep(rows, swept, self._final) if self._maker else rows

    def _final(self, row: str, key: str) -> Any:
        """A row's value after scaling and overrides, to which a swept value is compared."""
        group, _, name = key.partition(".")
        tree = self._scaled(row)
        return self.values.get(key, tree.get(group, {}).get(name) if tree else None)

    @cached_property
    def _maker(self) -> RowMaker | None:
        if self._base is None:
            return None
        maker = RowMaker(self.library, self._base.paper, self._place_of_maker)
        self.made = maker.made
        return maker

    def _place_of_maker(self, key: str) -> str | None:
        """Where a key that makes rows was written."""
        if key.startswith(tuple(self.lists)) or key in self.typed.sweeps:
            return COMMAND_LINE
        return place_of(key, self.library.hydra, *self._options(BASE))

    def _take_made(self) -> list[str]:
        """The problems of made rows, once all are made."""
        self.note(self.made.problems, "")
        return []

    def _with_values(self, names: list[str]) -> list[str]:
        """The rows that have values in a file or in the record; the others are refused."""
        for name in names:
            if not self._exists(name):
                file = self.library.folders.written_to(f"row/{name}")
                found = f"includes {name}, which is recorded without values and has no file {file}"
                self.note([Problem("sweep.rows", found, "restore the file, or choose another sweep.name")], name)
        return list(filter(self._exists, names))

    def _refuse_erased(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """An override of a key that a row changes would erase the row's difference."""
        for key in self.overrides.values:
            rows = [row for row, changed in changes.items() if key in changed]
            if rows:
                found = f"is changed by row{'s' * (len(rows) > 1)} {', '.join(rows)}"
                allowed = "remove the override, or select rows that keep base's value"
                self.every.append(Problem(key, found, allowed, None, self._source(key)))

    # Places

    def _place(self, problem: Problem, row: str) -> str | None:
        """Where the faulty value was set."""
        key, made = problem.key, self.made.rows.get(row)
        if source := self._source(key):
            return source
        if made and key in {**made.values, **made.final}:
            return made.place
        if self._is_recorded(row) and row not in self.library.folders.options("row"):
            return self._record
        of_row = self._options(made.of, made.options) if made else self._options(row or BASE)
        options = [*of_row, *self._scale_option]
        find = place_of_missing if problem.found == IS_MISSING else place_of
        return find(key, self.library.hydra, *options)

    def _source(self, key: str) -> str | None:
        """Where the value of an override comes from; None if the key has no override."""
        if key in self.typed.values or key in self.typed.sweeps:
            return COMMAND_LINE
        return self._record if key in self.overrides.values else None

    @property
    def _record(self) -> str | None:
        """The file of the recorded study."""
        return self.library.folders.show(self.record.study.folder / "study.json") if self.record else None

    def _way_out(self, place: str | None) -> str:
        """What to type about a value that the study has recorded."""
        if self.record is None or place != self._record:
            return ""
        return f"; recorded by {self.record.study.name}: {other_study(self.record.study.folder)}"


def _overlay(below: Tree, above: Tree) -> Tree:
    """What ``above`` sets otherwise than ``below``, group by group."""
    found: Tree = {}
    for key, value in above.items():
        before = below.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            value = _overlay(before, value)
            if not value:
                continue
        elif key in below and repr(value) == repr(before):
            continue
        found[key] = value
    return found
