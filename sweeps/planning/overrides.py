"""The command line's ``key=value`` overrides: parsed by Hydra's grammar, checked against the schema, all at once."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sweeps.planning.made_text import MAKERS, folded, lists_meant, rejoined, repeated_keys
from sweeps.planning.override import Override
from sweeps.planning.override_meanings import Meanings
from sweeps.planning.override_text import corrected, parsed, value_text, whole
from sweeps.planning.suggestions import takes_list
from sweeps.planning.yaml_files import Library
from tracking.shell import for_shell
from transformer.schema import Problem, kind_of

COMMAND_LINE = "command line"
QUOTES = """put quotes around a value with special characters: "paths.runs='~/runs'\""""


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
    reader = _Reader(library, list(recorded_rows), Meanings(library, one_row), makes_rows)
    arguments = folded(overrides, MAKERS)
    for text in whole(rejoined(arguments, MAKERS)):
        if text in arguments:
            reader.read(text)
        else:
            reader.refuse_split(text)
    return reader.found, reader.problems


class _Reader:
    """Reads one override after another, and keeps the first of two that contradict each other."""

    def __init__(self, library: Library, recorded_rows: list[str], meanings: Meanings, makes_rows: bool) -> None:
        self.library, self.recorded_rows, self.meanings, self.makes_rows = library, recorded_rows, meanings, makes_rows
        self.found, self.problems = Overrides(), list[Problem]()
        self.first: dict[str, Any] = {}

    def read(self, text: str) -> None:
        override = parsed(text)
        if override is None or not override.key:
            self._refuse_unreadable(text)
            return
        if override.key in MAKERS and (twice := repeated_keys(value_text(text))):
            self._refuse_repeated(text, twice)
        elif self._fits(override, value_text(text)):
            self._keep(override, value_text(text))

    def refuse_split(self, text: str) -> None:
        """Refuse an override that the shell split at its blanks."""
        if text.startswith(MAKERS):
            found, allowed = "has blanks or braces, at which the shell splits it", "put quotes around it"
        else:
            found, allowed = "has blanks, at which the shell splits it", "leave them out, or use quotes"
        self._refuse(text, found, allowed, self.meanings.of_text(text))

    def _refuse_repeated(self, text: str, keys: list[str]) -> None:
        """Refuse lists that give a key twice, of which Hydra would keep the last."""
        maker, _, lists = text.partition("=")
        self._refuse(
            maker, f"gives {', '.join(keys)} twice", "give all values of a key in one list", lists_meant(maker, lists)
        )

    def _refuse_unreadable(self, text: str) -> None:
        key, value = corrected(text) or ("", "")
        if key in MAKERS:
            self._refuse(
                key,
                f"is {value_text(text)}",
                f"must look like {key}='{self.library.list_example}'",
                self.meanings.of_text(text),
            )
            return
        if key and text.startswith(f"{key}=") and not self.meanings.known(key) and parsed(f"x={value}"):
            self._refuse_unknown(key, value)  # such as decode.α, which Hydra cannot read
        else:
            allowed = f"must look like {self.library.override_example}; {QUOTES}"
            self._refuse(text, "is not key=value", allowed, self.meanings.of_text(text))

    def _keep(self, override: Override, text: str) -> None:
        key, group = override.key, override.key in self.library.groups
        there: dict[str, Any] = self.found.choices if group else self.found.values
        value = _option(override, text) if group else _value(self.library.tree, override, text)
        first = self.first.setdefault(key, value)
        if repr(first) == repr(value):
            there[key] = value
            return
        there.pop(key, None)
        self._refuse(
            key,
            f"is given twice, as {first} and as {value}",
            "give it once",
            _list_of(self.library.tree, key, first, value),
        )

    def _fits(self, override: Override, text: str) -> bool:
        """Whether nothing is wrong with an override by itself; otherwise the problem is kept."""
        key, before = override.key, len(self.problems)
        if override.kind == "delete":
            self._refuse(key, "cannot be removed", "set another value")
        elif not self.meanings.known(key):
            self._refuse_unknown(key, text)
        elif override.package is not None:
            within = f"{key}.{override.package.rpartition('.')[2]}"
            meant = within if "." in override.package and self.meanings.known(within) else key
            found = "names a package after @, which is not supported"
            self._refuse(f"{key}@{override.package}", found, f"write {meant}=", f"{meant}={text}")
        elif override.kind == "sweep":
            allowed = "make rows of them with sweep.vary, or list rows in sweep.rows and seeds in sweep.seeds"
            self._refuse(key, "lists several values", allowed, self.meanings.listing(key, text))
        elif override.kind == "add":
            self._refuse(
                key, 'begins with "+", which adds a key', "every key already exists; remove the +", f"{key}={text}"
            )
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
            meant = problem.nearest and self.meanings.choosing(group, problem.nearest)
            self._refuse(group, problem.found, problem.allowed, meant)

    def _refuse_unknown(self, key: str, text: str) -> None:
        meant, allowed = self.meanings.unknown(key, text)
        self._refuse(key, "is not a key", allowed, meant.override if meant else None)

    def _refuse(self, key: str, found: str, allowed: str, meant: str | None = None) -> None:
        self.found.refused.add(key.partition("@")[0])
        self.problems.append(Problem(key, found, allowed, meant and for_shell(meant), COMMAND_LINE))


def _value(tree: type, override: Override, text: str) -> Any:
    """The value; a name of digits stays a name."""
    value, kind = override.value, kind_of(tree, override.key)
    takes_text = kind is str or kind == str | None
    return text if takes_text and isinstance(value, int | float) else value


def _option(override: Override, text: str) -> str:
    value = override.value
    return value if isinstance(value, str) else text


def _list_of(tree: type, key: str, *values: Any) -> str | None:
    """Two values of a list as one, which a shell makes two of in sweep.rows={base,big}."""
    several = takes_list(tree, key) and not any(isinstance(value, list) for value in values)
    return f"{key}=[{','.join(map(str, values))}]" if several else None
