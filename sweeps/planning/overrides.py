"""The command line's ``key=value`` overrides: parsed by Hydra's grammar, checked against the schema, all at once."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sweeps.planning.override import Override
from sweeps.planning.override_text import corrected, for_shell, parsed, readable, value_text, whole
from sweeps.planning.settings import Settings
from sweeps.planning.suggestions import Suggestion, key_meant, known_keys, option_meant, takes_list
from sweeps.planning.yaml_files import Library
from transformer.schema import Problem, kind_of
from transformer.versions import current_key

COMMAND_LINE = "command line"
HOW_TO_WRITE = (
    """must look like train.steps=100; put quotes around a value with special characters: "paths.runs='~/runs'\""""
)


@dataclass
class Overrides:
    """Chosen group options, such as scale=half, and values, such as model.n_heads=4.

    ``refused`` names the keys and groups that have a problem, and ``guesses`` what they probably mean, which lets the
    rest be checked without further problems.
    """

    choices: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    guesses: "Overrides | None" = None

    @property
    def names_rows(self) -> bool:
        return "sweep.rows" in self.values or "sweep" in self.choices

    @property
    def names_seeds(self) -> bool:
        return "sweep.seeds" in self.values or "sweep" in self.choices

    def after(self, choices: dict[str, str], values: dict[str, Any]) -> "Overrides":
        """These on top of earlier ones."""
        return Overrides(choices | self.choices, values | self.values)


def parse_overrides(
    overrides: list[str], library: Library, recorded_rows: Iterable[str] = (), one_row: bool = False
) -> tuple[Overrides, list[Problem]]:
    """The parsed overrides, and their problems. ``row=`` also takes rows that only a study records.

    ``one_row`` is for verbs that take one row and one seed: it decides what ``seed=2`` means.
    """
    reader = _Reader(library, list(recorded_rows), one_row)
    for text in whole(overrides):
        if text in overrides:
            reader.read(text)
        else:
            reader.refuse_split(text)
    return reader.found, reader.problems


def override_meant(text: str, one_row: bool) -> str | None:
    """The override that is meant by a text such as ``steps=100``; None if there is none."""
    _, problems = parse_overrides([text], Library(Path.cwd()), one_row=one_row)
    return problems[0].nearest if problems else text


class _Reader:
    """Reads one override after another, and keeps the first of two that contradict each other."""

    def __init__(self, library: Library, recorded_rows: list[str], one_row: bool) -> None:
        self.library, self.recorded_rows, self.one_row = library, recorded_rows, one_row
        self.guesses = Overrides()
        self.found, self.problems = Overrides(guesses=self.guesses), list[Problem]()
        self.first: dict[str, Any] = {}

    def read(self, text: str) -> None:
        override = parsed(text)
        if override is None or not override.key:
            self._refuse_unreadable(text)
            return
        override = replace(override, key=current_key(Settings, override.key))
        if self._fits(override, value_text(text)):
            self._keep(override, value_text(text))

    def refuse_split(self, text: str) -> None:
        """Refuse an override that the shell split at its blanks."""
        self._refuse(
            text, "has blanks, at which the shell splits it", "leave them out, or use quotes", self._meant_by(text)
        )

    def _refuse_unreadable(self, text: str) -> None:
        key, value = corrected(text) or ("", "")
        if key and text.startswith(f"{key}=") and not self._known(key) and parsed(f"x={value}"):
            self._refuse_unknown(key, value)  # such as decode.α, which Hydra cannot read
        else:
            self._refuse(text, "is not key=value", HOW_TO_WRITE, self._meant_by(text))

    def _known(self, key: str) -> bool:
        return key in self.library.groups or key in known_keys()

    def _keep(self, override: Override, text: str) -> None:
        key, group = override.key, override.key in self.library.groups
        there: dict[str, Any] = self.found.choices if group else self.found.values
        value = _option(override, text) if group else _value(override, text)
        first = self.first.setdefault(key, value)
        if repr(first) == repr(value):
            there[key] = value
            return
        there.pop(key, None)
        self._refuse(key, f"is given twice, as {first} and as {value}", "give it once", _list_of(key, first, value))
        if not _list_of(key, first, value):
            self._guess(key, first)

    def _fits(self, override: Override, text: str) -> bool:
        """Whether nothing is wrong with an override by itself; otherwise the problem is kept."""
        key, before = override.key, len(self.problems)
        if override.kind == "delete":
            self._refuse(key, "cannot be removed", "set another value")
        elif not self._known(key):
            self._refuse_unknown(key, text)
        elif override.package is not None:
            within = f"{key}.{override.package.rpartition('.')[2]}"
            meant = within if "." in override.package and self._known(within) else key
            found = "names a package after @, which is not supported"
            self._refuse(f"{key}@{override.package}", found, f"write {meant}=", f"{meant}={text}")
        elif override.kind == "sweep":
            allowed = "write one file per row; list rows in sweep.rows and seeds in sweep.seeds"
            self._refuse(key, "lists several values", allowed, f"{key}=[{text}]" if takes_list(key) else None)
        elif override.kind == "add":
            self._refuse(key, 'begins with "+", which adds a key', "every key exists; leave out +", f"{key}={text}")
        elif key in self.library.groups:
            self._check_option(override, text)
        return len(self.problems) == before

    def _check_option(self, override: Override, text: str) -> None:
        group, name = override.key, _option(override, text)
        if group == "row" and name in self.recorded_rows:
            return
        if not isinstance(override.value, str) and name not in self.library.options(group):
            options = ", ".join(self.library.options(group))
            self._refuse(group, f"is {override.value}", f"must be one of {options}")
        elif problem := self.library.unknown_option(group, name, COMMAND_LINE):
            meant = problem.nearest and self._choosing(group, problem.nearest)
            self._refuse(group, problem.found, problem.allowed, meant)

    def _refuse_unknown(self, key: str, text: str) -> None:
        meant = self._meaning(key, text)
        branch = (meant.key if meant and not meant.group else key).rsplit(".", 1)[0]
        branch = key if any(known.startswith(f"{key}.") for known in known_keys()) else branch
        siblings = [name.removeprefix(f"{branch}.") for name in known_keys() if name.startswith(f"{branch}.")]
        usual = f"keys under {branch} are {', '.join(siblings)}" if siblings else "`ablate config` shows every key"
        self._refuse(key, "is not a key", (meant and meant.note) or usual, meant.override if meant else None)
        if meant and meant.same_value and "=" not in meant.override:
            self._guess_from(f"{meant.key}={text}")

    def _meaning(self, key: str, text: str) -> Suggestion | None:
        options = {group: self.library.options(group) for group in self.library.groups}
        return key_meant(key, text, options, self.one_row)

    def _meant_by(self, text: str) -> str | None:
        """The override that is meant by a text that cannot be read: a bare name, or almost key=value."""
        found = corrected(text)
        if found is None:
            return self._bare(text)
        key, value = found
        if not self._known(key):
            meant = self._meaning(key, value)
            if meant is None or not meant.same_value:
                return meant.key if meant else None
            key, _, replaced = meant.override.partition("=")
            value = replaced or value
        return readable(key, value) if value else None

    def _bare(self, text: str) -> str | None:
        """The override that is meant by the bare name of a row, a trial, another option or a study."""
        for group in sorted(self.library.groups, key=lambda group: (group != "row", group != "scale")):
            option = option_meant(group, text, self.library.options(group), similar=False)
            if option:
                return self._choosing(group, option)
        return None

    def _choosing(self, group: str, option: str) -> str:
        """The override that chooses an option. A sweep lists its rows."""
        return f"sweep.rows=[{option}]" if group == "row" and not self.one_row else f"{group}={option}"

    def _guess(self, key: str, value: Any) -> None:
        guesses: dict[str, Any] = self.guesses.choices if key in self.library.groups else self.guesses.values
        if value is not None:
            guesses.setdefault(key, value)

    def _guess_from(self, text: str) -> None:
        """Keep what a suggested override would set."""
        override = parsed(text)
        if override is None or override.kind == "sweep" or not self._known(override.key):
            return
        key, value = override.key, override.value
        if key in self.library.groups:
            value = option_meant(key, str(value), self.library.options(key))
        self._guess(key, value)

    def _refuse(self, key: str, found: str, allowed: str, meant: str | None = None) -> None:
        self.found.refused.add(key.partition("@")[0])
        self.problems.append(Problem(key, found, allowed, meant and for_shell(meant), COMMAND_LINE))
        if meant and "=" in meant:
            self._guess_from(meant)


def _value(override: Override, text: str) -> Any:
    """The value; a name of digits stays a name."""
    value, kind = override.value, kind_of(Settings, override.key)
    takes_text = kind is str or kind == str | None
    return text if takes_text and isinstance(value, int | float) else value


def _option(override: Override, text: str) -> str:
    value = override.value
    return value if isinstance(value, str) else text


def _list_of(key: str, *values: Any) -> str | None:
    """Two values of a list as one, which a shell makes two of in sweep.rows={base,big}."""
    several = takes_list(key) and not any(isinstance(value, list) for value in values)
    return f"{key}=[{','.join(map(str, values))}]" if several else None
