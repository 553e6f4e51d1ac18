"""The command line's ``key=value`` overrides: parsed by Hydra's grammar, checked against the schema, all at once."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sweeps.planning.override import Override, parsed, value_text
from sweeps.planning.settings import MAKERS
from sweeps.planning.suggestions import known_keys, unknown_key
from sweeps.planning.yaml_files import Library
from sweeps.schema import Problem, kind_of
from tracking.shell import for_shell

COMMAND_LINE = "command line"
QUOTES = """put quotes around a value with special characters: "paths.runs='~/runs'\""""
LISTED_KEY = re.compile(r"([\w-]+(?:\.[\w-]+)+)\s*:\s*\[")
"""A key with its list in the text of ``sweep.vary`` or ``sweep.grid``."""


@dataclass
class Overrides:
    """Chosen group options, such as scale=half, and values, such as model.n_heads=4.

    ``refused`` names the keys and groups that have a problem.
    """

    choices: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    @property
    def names_rows(self) -> bool:
        return not {"sweep.rows", *MAKERS}.isdisjoint(self.values) or "sweep" in self.choices

    @property
    def names_seeds(self) -> bool:
        return "sweep.seeds" in self.values or "sweep" in self.choices

    def after(self, choices: dict[str, str], values: dict[str, Any]) -> "Overrides":
        """These on top of earlier ones."""
        return Overrides(choices | self.choices, values | self.values)


def parse_overrides(
    overrides: list[str], library: Library, recorded_rows: Iterable[str] = (), one_row: bool = False
) -> tuple[Overrides, list[Problem]]:
    """The parsed overrides, and their problems. ``row=`` also takes rows that only a study records or that are made.

    ``one_row`` is for verbs that take one row and one seed: it decides what ``seed=2`` means.
    """
    makes_rows = any(text.startswith((*MAKERS, "sweep=")) for text in overrides)
    reader = _Reader(library, list(recorded_rows), one_row, makes_rows)
    read = [(text, parsed(text)) for text in overrides]
    for text, override in read:
        if override is not None and override.key:
            reader.read(text, override)
    reader.refuse_unreadable([text for text, override in read if override is None or not override.key])
    return reader.found, reader.problems


class _Reader:
    """Reads one override after another, and keeps the first of two that contradict each other."""

    def __init__(self, library: Library, recorded_rows: list[str], one_row: bool, makes_rows: bool) -> None:
        self.library, self.recorded_rows, self.one_row, self.makes_rows = library, recorded_rows, one_row, makes_rows
        self.found, self.problems = Overrides(), list[Problem]()
        self.first: dict[str, Any] = {}

    def read(self, text: str, override: Override) -> None:
        if override.key in MAKERS and (twice := _repeated(text)):  # Hydra would keep the last
            allowed = "give all values of a key in one list"
            self._refuse(override.key, f"gives {', '.join(twice)} twice", allowed)
        elif self._fits(override, value_text(text)):
            self._keep(override, value_text(text))

    def refuse_unreadable(self, texts: list[str]) -> None:
        """One reason for all of them: they may be parts of one text, which the shell split at its blanks."""
        if texts:
            form = self._lists_form(texts[0]) or f"must look like {self.library.override_example}"
            self._refuse(" ".join(texts), "is not key=value", f"{form}; {QUOTES}")

    def _lists_form(self, text: str) -> str | None:
        """How lists of values are typed, for a text that means to give some."""
        maker = next(filter(text.startswith, MAKERS), None)
        return maker and f"must look like {maker}='{self.library.list_example}'"

    def _keep(self, override: Override, text: str) -> None:
        key, group = override.key, override.key in self.library.groups
        there: dict[str, Any] = self.found.choices if group else self.found.values
        value = _option(override, text) if group else _value(self.library.tree, override, text)
        first = self.first.setdefault(key, value)
        if repr(first) == repr(value):
            there[key] = value
        else:
            there.pop(key, None)
            self._refuse(key, f"is given twice, as {first} and as {value}", "give it once")

    def _fits(self, override: Override, text: str) -> bool:
        """Whether nothing is wrong with an override by itself; otherwise the problem is kept."""
        key, before = override.key, len(self.problems)
        if override.kind == "delete":
            self._refuse(key, "cannot be removed", "set another value")
        elif key not in self.library.groups and key not in known_keys(self.library.tree):
            self._refuse_unknown(key)
        elif override.package is not None:
            found, allowed = "names a package after @, which is not supported", f"remove @{override.package}"
            self._refuse(f"{key}@{override.package}", found, allowed)
        elif override.kind == "sweep":
            allowed = "make rows of them with sweep.vary, or list rows in sweep.rows and seeds in sweep.seeds"
            self._refuse(key, "lists several values", self._lists_form(key) or allowed)
        elif override.kind == "add":
            allowed = "every key already exists; remove the +"
            self._refuse(key, 'begins with "+", which adds a key', allowed, f"{key}={text}")
        elif key in self.library.groups:
            self._check_option(override, text)
        return len(self.problems) == before

    def _check_option(self, override: Override, text: str) -> None:
        group, name = override.key, _option(override, text)
        if group == "row" and (name in self.recorded_rows or self.makes_rows):
            return
        if not isinstance(override.value, str) and name not in self.library.options(group):
            options = ", ".join(self.library.options(group))
            self._refuse(group, f"is {override.value}", f"must be one of {options}")
        elif problem := self.library.unknown_option(group, name, COMMAND_LINE):
            self._refuse(group, problem.found, problem.allowed, problem.nearest and f"{group}={problem.nearest}")

    def _refuse_unknown(self, key: str) -> None:
        meant, allowed = unknown_key(self.library.tree, key, self.library.groups, self.one_row)
        self._refuse(key, "is not a key", self._lists_form(key) or allowed, meant)

    def _refuse(self, key: str, found: str, allowed: str, meant: str | None = None) -> None:
        self.found.refused.add(key.partition("@")[0])
        self.problems.append(Problem(key, found, allowed, meant and for_shell(meant), COMMAND_LINE))


def _repeated(text: str) -> list[str]:
    keys = LISTED_KEY.findall(text)
    return sorted({key for key in keys if keys.count(key) > 1})


def _value(tree: type, override: Override, text: str) -> Any:
    """The value; a name of digits stays a name."""
    value, kind = override.value, kind_of(tree, override.key)
    takes_text = kind is str or kind == str | None
    return text if takes_text and isinstance(value, int | float) else value


def _option(override: Override, text: str) -> str:
    value = override.value
    return value if isinstance(value, str) else text
