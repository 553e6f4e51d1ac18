"""The task of a command and the rows of a study: composed, scaled, overridden, checked; all errors
at once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.config.files import BASE
from sweeps.config.hydra import Library, parsed, resolved
from sweeps.config.overrides import parse_overrides
from sweeps.config.refusals import FoundProblems
from sweeps.config.row_keys import builds_on, lists_all, own_keys
from sweeps.config.rows import ALL, RowTrees, Scaled
from sweeps.config.settings import VARY, Settings, absolute, at_home, parse_settings
from sweeps.config.study_faults import study_problems
from sweeps.config.tasks import DEFAULT_TASK, TaskSource, source_of, usual_task
from sweeps.planning.composition import ComposedRow, Composition, StudyRecord
from sweeps.planning.naming import by_name, command, known_study, other_study
from sweeps.schema import COMMAND_LINE, Problem, RefusedError, Tree, assigned, differences, dotted
from tracking.observed.record import is_observed
from tracking.study import Study
from tracking.words import plural

TASK_KEY = "task"


def library_of(
    overrides: list[str], here: Path, record: StudyRecord | None = None, trains: bool = True
) -> Library:
    """The configuration of the command's task. Raises RefusedError if it cannot be imported.

    To read a study needs no task: without ``trains``, the default task's files stand in for those
    of a recorded task.
    """
    try:
        return Library(record.source if record else source_named(overrides, here), here)
    except RefusedError:
        if trains or any(text.startswith(f"{TASK_KEY}=") for text in overrides):
            raise
        return Library(source_of(DEFAULT_TASK, here), here)


def source_named(overrides: list[str], here: Path) -> TaskSource:
    """By ``task=NAME``, or by the study that ``sweep.name`` and ``paths.runs`` name. Raises
    RefusedError."""
    starts = (TASK_KEY, "paths.runs=", "sweep.name=")
    typed = dict(pair for text in overrides if text.startswith(starts) for pair in _named(text))
    if TASK_KEY in typed:
        try:
            return source_of(typed[TASK_KEY], here)
        except RefusedError as error:
            raise RefusedError(
                replace(each, place=each.place or COMMAND_LINE) for each in error.problems
            ) from None
    study = _study(typed.get("paths.runs", "runs"), typed.get("sweep.name"), here)
    return source_of(usual_task(here), here) if study is None else source_of_study(study, here)


def source_of_study(study: Study, here: Path) -> TaskSource:
    """The task that a study has recorded. Raises RefusedError if another task has that name
    today, or if allelse did not run the study."""
    refuse_observed(study)
    source = source_of(str(study.chosen.get("options", {}).get(TASK_KEY, study.task.name)), here)
    if source.task.name != study.task.name:
        found = f'is "{source.name}", now a task named {source.task.name}; {study.name} was made with {study.task.name}'
        raise RefusedError([Problem(TASK_KEY, found, "restore the file, or choose another study")])
    return source


def refuse_observed(study: Study) -> None:
    """Raises RefusedError for a study that was imported: no task of ours trained its trials."""
    if is_observed(study.folder):
        fault = f"is {study.name}, which was imported: allelse did not run its trials"
        allowed = (
            f"type `{command('table', by_name(study.folder))}`, or choose another name to train"
        )
        raise RefusedError([Problem("sweep.name", fault, allowed)])


def _named(text: str) -> list[tuple[str, str]]:
    """The key and the value of an override; a number may be a name too."""
    override = parsed(text)
    if override is None or override.is_sweep_override():
        return []
    value = override.value()
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return []
    return [
        (override.key_or_group, value if isinstance(value, str) else text.partition("=")[2].strip())
    ]


def _study(runs: str, name: str | None, here: Path) -> Study | None:
    try:
        return None if name is None else known_study(here / at_home(runs) / name)
    except RefusedError:  # reported when the study is read
        return None


def compose_sweep(
    overrides: list[str],
    here: Path | None = None,
    record: StudyRecord | None = None,
    library: Library | None = None,
) -> Composition:
    """Every row that the overrides name or make, after those of ``record``. Raises RefusedError
    with every problem."""
    composer = _Composer(overrides, here or Path.cwd(), record, library, sweeps=True)
    composer.take_seeds()
    composer.make_rows()
    return composer.compose([*(record.rows if record else ()), *composer.row_names()])


def compose_row(
    overrides: list[str],
    here: Path | None = None,
    record: StudyRecord | None = None,
    library: Library | None = None,
) -> Composition:
    """The one row that ``row=`` names, by default base, after those of ``record``.

    Raises RefusedError with every problem.
    """
    composer = _Composer(overrides, here or Path.cwd(), record, library)
    composer.refuse_several()
    composer.make_rows()
    return composer.compose([*(record.rows if record else ()), *composer.one_row()])


def compose_base(
    overrides: list[str], here: Path | None = None, library: Library | None = None
) -> Composition:
    """Base alone, for what all rows share: its trials may be incomplete. Raises RefusedError."""
    return _Composer(overrides, here or Path.cwd(), None, library, trains=False).compose([BASE])


def compose_settings(
    overrides: list[str], here: Path | None = None, library: Library | None = None
) -> Settings:
    """A study's name and location, for verbs that only read it. Raises RefusedError."""
    return compose_base(overrides, here, library).shared


class _Composer:
    """Collects problems while it composes, to report them together."""

    def __init__(
        self,
        overrides: list[str],
        here: Path,
        record: StudyRecord | None,
        library: Library | None,
        trains: bool = True,
        sweeps: bool = False,
    ) -> None:
        self.here, self.record, self.trains = here, record, trains
        self.library = library or library_of(overrides, here, record, trains)
        self.schema, known = self.library.schema, tuple(record.rows) if record else ()
        self.typed, problems = parse_overrides(overrides, self.library, known, sweeps)
        replaced = self.schema.scoring_groups & self.typed.choices.keys()
        given = (
            self.typed
            if record is None
            else self.typed.after(record.options, record.overrides(replaced))
        )
        self.overrides, self.values = given, dict(given.values)
        self.is_vary_typed = VARY in self.values
        self.varied = self.values.pop(VARY, None)
        self.found = FoundProblems(
            self.library, self.typed, given, record.study.folder if record else None, known
        )
        self.found.way_out = (
            f"; recorded by {record.study.name}: {other_study(record.study.folder)}"
            if record
            else ""
        )
        self.found.every += problems
        self.rows = RowTrees(self.found, self.values)
        self._check_files()
        if self.values.get("sweep.rows") == ALL:
            self.values["sweep.rows"] = self.rows.listed

    def take_seeds(self) -> None:
        """The task's own key for a seed lists the seeds of a sweep."""
        key = self.schema.seed
        if key is None or key not in (*self.typed.values, *self.typed.sweeps):
            return
        if "sweep.seeds" in self.typed.values:
            self.found.refuse(
                key,
                "and sweep.seeds are both given",
                "give the seeds once, with sweep.seeds=[1,2,3]",
            )
        self.values["sweep.seeds"] = self.typed.sweeps.get(key) or [self.values.pop(key)]

    def refuse_several(self) -> None:
        """What is for several trials, where one is asked for."""
        seed = self.schema.seed
        for key, single in (("sweep.rows", "row"), ("sweep.seeds", seed or "sweep.seeds")):
            listed = self.typed.values.get(key)
            several = isinstance(listed, list) and len(listed) > 1
            if key in self.typed.values and (key != single or several):
                meant = (
                    f"{single}={listed[0]}"
                    if isinstance(listed, list) and len(listed) == 1
                    else None
                )
                allowed = f"for one trial, use row=NAME and {seed or 'sweep.seeds'}={'N' if seed else '[N]'}"
                self.found.refuse(key, "is for `allelse sweep`", allowed, meant)

    def make_rows(self) -> None:
        """The rows of ``sweep.vary``, which then count as rows with a file."""
        asked = self.varied if self.is_vary_typed else self.rows.varied
        if (asked or self.is_vary_typed) and (base := self.rows.base):
            self.found.made.vary(asked, base.paper)

    def row_names(self) -> list[str]:
        """All rows of a sweep, without unknown names, which are refused. Empty if only the record
        names rows."""
        made = self.found.made
        if self.record and not self.typed.names_rows(self.schema.seed) and not made.asked:
            return []
        typed = self._typed_rows()
        swept = {
            key: each
            for key, each in self.typed.sweeps.items()
            if key not in ("row", self.schema.seed)
        }
        listed = typed or self.values.get("sweep.rows", self.rows.listed)
        makes = bool(made.asked or swept) and not typed and "sweep.rows" not in self.values
        if makes and (listed is None or "sweep" not in self.found.chosen):
            listed = [BASE]
        known = self._selected(listed)
        names = made.sweep(known, swept, self._final) if swept and self.rows.base else known
        if (typed or swept) and BASE not in names:
            names = [BASE, *names]
            made.notes.append("Row base is added: each row is compared with it.")
        names = list(dict.fromkeys([*names, *made.rows]))
        names = sorted(names, key=lambda name: name != BASE) if typed or swept else names
        if made.asked or swept or typed or not isinstance(listed, list):
            self.values["sweep.rows"] = names
        return names

    def one_row(self) -> list[str]:
        """The row of `allelse train`. Lists of values need the name of one of their rows."""
        name, made = self.found.chosen.get("row", BASE), self.found.made
        if unknown := self._unknown(name):
            self.found.every.append(unknown)
            return []
        if name not in made.rows:
            allowed = f"for one trial, name its row, such as row={next(iter(made.rows), 'NAME')}"
            for key in (key for key in made.asked if key in self.typed.values):
                self.found.refuse(key, "makes rows for `allelse sweep`", allowed)
        return [name]

    def compose(self, asked: list[str]) -> Composition:
        """Complete rows. Raises RefusedError with every problem found so far."""
        self.found.note(self.found.made.problems)
        names = list(dict.fromkeys(asked))
        scaled = {
            name: row
            for name in dict.fromkeys([BASE, *names])
            if (row := self._scaled(name)) is not None
        }
        if BASE not in scaled:
            raise RefusedError(dict.fromkeys(self.found.every))
        base = scaled[BASE].tree
        changes = {
            name: differences(base, row.tree, self.schema.groups) for name, row in scaled.items()
        }
        settings = {name: self._settings(name, row.tree, base) for name, row in scaled.items()}
        self._refuse_erased({name: changes[name] for name in names if name in changes})
        if self.found.every:
            raise RefusedError(dict.fromkeys(self.found.every))
        whole = {name: value for name, value in settings.items() if value is not None}
        rows = tuple(self._row(name, whole[name], changes[name], scaled[name]) for name in names)
        listed = tuple(map(str, self.rows.listed or ()))
        told = self.found.made.notes
        if ignored := self.library.folders.ignored:
            told.append(f"{ignored} is not read: change base by a row, a scale or overrides.")
        overrides = self.overrides, self.typed, self.library.defaults
        place, whole_list = self.found.place, lists_all(self.found)
        return Composition(rows, whole[BASE], listed, *overrides, place, tuple(told), whole_list)

    def _check_files(self) -> None:
        """The form of the user's files of options."""
        self.found.every += self.library.folders.misnamed("row")
        self.rows.readable("", BASE)
        for group in self.library.groups:
            name = self.found.chosen.get(group, self.library.defaults[group])
            gone = (
                self.library.folders.unknown_option(group, name, self.found.record)
                if group != "row"
                else None
            )
            if gone:  # that of a recorded option
                self.found.every.append(
                    replace(gone, allowed="restore the file, or choose another sweep.name")
                )
            if gone or (group != "row" and not self.rows.readable(group, name)):
                self.found.chosen.pop(group, None)  # the default lets the rest be checked

    def _scaled(self, row: str) -> Scaled | None:
        """One row after scaling. Without a file, it is the row that the study has recorded."""
        if self.record is None or not self.found.is_only_recorded(row):
            return self.rows.scaled(row)
        base, recorded = self.rows.scaled(BASE), self.record.rows[row]
        about = {"row": {"change": "", "published": {}, **recorded.about}}
        return base and Scaled(
            assigned(base.tree, recorded.values) | about, before=recorded.before_scaling
        )

    def _settings(self, row: str, tree: Tree, base: Tree) -> Settings | None:
        """One complete row. Overrides are final values; those that make a row stand above them."""
        final = self.found.made.rows[row].final if row in self.found.made.rows else {}
        values = self._values_for(row, tree, base)
        plain = self.rows.resolved(assigned(tree, values | final), row)
        if plain is None:
            return None
        settings, problems = parse_settings(self.library.source, plain)
        self.found.note(problems, row)
        # base's values replace wrong ones, so that conflicts between the others are reported too
        wrong = {problem.key for problem in problems}
        repaired = assigned(
            plain, {key: value for key, value in dotted(base).items() if key in wrong}
        )
        checked = settings or parse_settings(self.library.source, repaired)[0]
        if checked is not None:
            between = [
                *(self.library.task.problems(checked.trial) if self.trains else []),
                *study_problems(checked),
            ]
            self.found.note((each for each in between if each.key not in wrong), row)
        return settings and absolute(settings, self.here)

    def _values_for(self, row: str, tree: Tree, base: Tree) -> dict[str, Any]:
        """The overrides, without those of scoring keys that the row sets itself: they are for the
        other rows."""
        if row == BASE:
            return self.values
        own = {
            *differences(base, tree, self.schema.groups),
            *own_keys(self.found, row),
        } & self.schema.scores
        return {key: value for key, value in self.values.items() if key not in own}

    def _row(
        self, name: str, settings: Settings, changes: dict[str, Any], scaled: Scaled
    ) -> ComposedRow:
        made, folders = self.found.made.rows.get(name), self.library.folders
        file, place = folders.find(f"row/{name}"), made.place if made else None
        if file and folders.is_own(file):
            place = folders.show(file)
        return ComposedRow(
            name, settings, changes, scaled.kept, place, scaled.before, builds_on(self.found, name)
        )

    def _unknown(self, row: str) -> Problem | None:
        """The refusal of a row that is nowhere."""
        more = [*self.found.recorded, *self.found.made.rows]
        return self.library.folders.unknown_option("row", row, COMMAND_LINE, more)

    def _typed_rows(self) -> list[str] | None:
        """The rows that ``row=`` names."""
        one = self.typed.choices.get("row")
        rows = self.typed.sweeps.get("row") or ([one] if one else None)
        if rows and "sweep.rows" in self.typed.values:
            self.found.refuse(
                "row", "and sweep.rows are both given", "name all rows in one of them"
            )
        return rows

    def _selected(self, asked: Any) -> list[str]:
        """The rows of a list that exist, each once; names that do not exist or are listed twice are
        refused."""
        if not isinstance(asked, list) or not asked:
            self.found.note(
                [
                    Problem(
                        "sweep.rows",
                        f"is {asked}",
                        "must be a list of rows, such as [base,big], or all",
                    )
                ]
            )
            return []
        names = [str(name) for name in asked]
        unknown = {name: problem for name in names if (problem := self._unknown(name))}
        twice = sorted({name for name in names if names.count(name) > 1})
        problems = [replace(each, key="sweep.rows", place=None) for each in unknown.values()]
        listed = "must list each row once"
        problems += [
            Problem("sweep.rows", f"lists {name} {names.count(name)} times", listed)
            for name in twice
        ]
        self.found.note(problems)
        return [name for name in dict.fromkeys(names) if name not in unknown]

    def _final(self, row: str, key: str) -> Any:
        """A row's value after scaling and overrides, to which a swept value is compared."""
        group, _, name = key.partition(".")
        scaled = self._scaled(row)
        return self.values.get(key, scaled.tree.get(group, {}).get(name) if scaled else None)

    def _refuse_erased(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """An override of a key that a row changes would erase the row's difference.

        A key that scores is left out: there a row keeps its own value.
        """
        deciding = [key for key in self.overrides.values if key not in self.schema.scores]
        for key in deciding:
            rows = [row for row, changed in changes.items() if key in changed]
            if rows:
                found = f"is changed by {plural('row', len(rows))} {', '.join(rows)}"
                allowed = "remove the override, or select rows that keep base's value"
                self.found.every.append(Problem(key, found, allowed, None, self.found.source(key)))


def job_of(overrides: list[str]) -> dict[str, Any]:
    """As `hydra.compose("config", overrides)`, resolved. Raises RefusedError."""
    library, typed = _checked(overrides)
    tree, problems = resolved(library.compose(*typed))
    if tree is None:
        raise RefusedError(problems)
    return tree


def defaults_of(overrides: list[str]) -> Table:
    """The composed files with their packages; a value of a later one counts. Raises
    RefusedError."""
    library, typed = _checked(overrides)
    table = Table("file", "package", box=box.SIMPLE_HEAD)
    for file, package in library.files(*typed):
        table.add_row(escape(library.folders.show(file)), escape(package or "_global_"))
    return table


def _checked(overrides: list[str]) -> tuple[Library, list[str]]:
    """The overrides but for the task, which Hydra does not know. Raises RefusedError."""
    library = library_of(overrides, Path.cwd())
    _, problems = parse_overrides(overrides, library)
    if problems:
        raise RefusedError(problems)
    return library, [text for text in overrides if not text.startswith(f"{TASK_KEY}=")]
