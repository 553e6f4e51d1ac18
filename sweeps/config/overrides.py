"""The command line's overrides: read with Hydra's grammar, checked against the schema, with hints
for typos."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeps.config.hydra.typed_override import TypedOverride, parsed
from sweeps.config.library import Library
from sweeps.config.schema import FIXED
from sweeps.config.settings import VARY, at_home
from sweeps.config.tasks import known_tasks
from sweeps.fields import is_text
from sweeps.problems import COMMAND_LINE, Problem, nearest
from sweeps.trees import Values
from tracking.shell import for_shell, quoted
from tracking.study import study_folders

QUOTES = """put quotes around a value with special characters: "paths.runs='~/runs'\""""
TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|([\w./-]+)\s*:|\S""")
"""A quoted text, a key with its colon, or one other character, in a list or dict of Hydra's."""
LISTED = re.compile(r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\\.|[^'",\\])+""")
"""One value between the commas of several."""
HYDRAS_OWN = {
    "hydra/launcher": "trials run on Ray; cluster=NAME chooses where",
    "hydra/sweeper": "`allelse sweep row=base,big train.seed=1,2` sweeps by itself",
    "hydra": (
        "folders are set by paths.runs, paths.data and paths.checkpoints; "
        "`allelse logs` shows what trials print"
    ),
}
"""What to type instead, by the start of the key."""


@dataclass
class Overrides:
    """Chosen options, such as scale=half, and values, such as model.n_heads=4.

    ``sweeps`` has the keys and groups with several values, which make rows and seeds.
    """

    choices: dict[str, str] = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    sweeps: dict[str, list[Any]] = field(default_factory=dict)

    def of_group(self, group: str) -> Values:
        """The values of this group's keys."""
        return {key: value for key, value in self.values.items() if key.startswith(f"{group}.")}

    def names_rows(self, seed: str | None) -> bool:
        """Whether the user names rows. ``seed`` is the task's key for a seed, which makes no
        rows."""
        has_values = not self.values.keys().isdisjoint({"sweep.rows", VARY})
        has_choices = not self.choices.keys().isdisjoint({"sweep", "row"})
        sweeps_rows = bool(self.sweeps.keys() - {seed})
        return has_values or has_choices or sweeps_rows

    def names_seeds(self, seed: str | None) -> bool:
        """Whether the user names seeds. ``seed`` is the task's key for a seed."""
        has_values = not self.values.keys().isdisjoint({"sweep.seeds", "sweep.base_seeds", seed})
        return has_values or "sweep" in self.choices or seed in self.sweeps


def parse_overrides(
    overrides: Sequence[str],
    library: Library,
    recorded_rows: Sequence[str] = (),
    sweeps: bool = False,
) -> tuple[Overrides, list[Problem]]:
    """The parsed overrides, and their problems.

    ``row=`` also takes rows without a file: those in ``recorded_rows``, and any name if the
    overrides may make rows. ``sweeps`` says whether the verb takes several values of a key.
    """
    makes_rows = any(text.startswith((VARY, "sweep=")) for text in overrides)
    reader = _Reader(library, list(recorded_rows), sweeps, makes_rows)
    unreadable = []
    for text in overrides:
        override = library.typed(text)
        if override is not None:
            reader.read(override)
        else:
            unreadable.append(text)
    if unreadable:
        reader.refuse_unreadable(unreadable)
    return reader.overrides, reader.problems


class _Reader:
    """Reads overrides one by one into ``overrides`` and ``problems``.

    If two overrides contradict each other, the second one is refused.
    """

    def __init__(
        self, library: Library, recorded_rows: list[str], sweeps: bool, makes_rows: bool
    ) -> None:
        self.library = library
        self.recorded_rows = recorded_rows
        self.sweeps = sweeps
        self.makes_rows = makes_rows
        self.overrides = Overrides()
        self.problems: list[Problem] = []
        self.first_values: Values = {}

    def read(self, override: TypedOverride) -> None:
        """Keep the override, or its problems."""
        key = override.key
        repeated = _repeated_keys(override.value_text)
        if repeated:  # Hydra would keep the last value
            fault = f"gives {', '.join(repeated)} twice"
            allowed = "give all values of a key in one list" if key == VARY else "give it once"
            self._refuse(key, fault, allowed)
        elif self._is_supported(override):
            is_group = key in self.library.groups
            read_values = self._options if is_group else self._values
            values = read_values(override)
            if is_group and None in values:
                return  # an option does not exist
            if override.is_sweep:
                self._keep(key, values, self.overrides.sweeps)
            elif is_group:
                self._keep(key, values[0], self.overrides.choices)
            else:
                self._keep(key, values[0], self.overrides.values)

    def _keep(self, key: str, value: Any, target: Values) -> None:
        """Set the value in ``target``, unless the key already has another value."""
        first_value = self.first_values.setdefault(key, value)
        if repr(first_value) == repr(value):
            target[key] = value
        else:
            target.pop(key, None)
            fault = f"is given twice, as {first_value} and as {value}"
            self._refuse(key, fault, "give it once")

    def refuse_unreadable(self, texts: list[str]) -> None:
        """Refuse them together: they may be parts of one text, which the shell split at its
        spaces."""
        key = next(iter(self.library.schema.short_names))
        allowed = f"must look like {key}=VALUE"
        are_plain = all(re.fullmatch(r"[\w./-]+", text) for text in texts)
        if not are_plain:
            allowed = f"{allowed}; {QUOTES}"
        self._refuse(" ".join(texts), "is not key=value", allowed, self._suggestion(texts[0]))

    def _suggestion(self, text: str) -> str | None:
        """What a text without a readable key most likely means; None if nothing comes close."""
        key, equals, value = text.partition("=")
        if equals:
            own_name = self.library.hints.other_name(key)
            return own_name and f"{own_name}={value}"
        if text in (*self.library.keys, *self.library.groups):
            return f"{text}=VALUE"
        suggestions = self._named_values()
        name = nearest(Path(re.sub(r"-s\d+$", "", text)).stem, suggestions)
        return name and suggestions[name]

    def _named_values(self) -> dict[str, str]:
        """The override for the name of each recorded study, task and option."""
        folders = self.library.folders
        runs = folders.here / at_home(str(self.overrides.values.get("paths.runs", "runs")))
        overrides = {
            folder.name: f"sweep.name={quoted(folder.name)}" for folder in study_folders(runs)
        }
        for name in known_tasks(folders.here):
            overrides[name] = f"task={name}"
        for group in self.library.groups:
            for name in folders.options(group):
                overrides[name] = f"{group}={name}"
        return overrides

    def _is_supported(self, override: TypedOverride) -> bool:
        """Whether the key and the form of the override are right. Its problem is kept; values are
        not checked."""
        key = override.key
        own_form = f"{key}={override.value_text}"
        n_problems = len(self.problems)
        if override.sets_hydra:
            allowed = next(words for start, words in HYDRAS_OWN.items() if key.startswith(start))
            self._refuse(key, "is a setting of Hydra's own program", allowed)
        elif override.removes_key:
            self._refuse(key, "cannot be removed", "set another value")
        elif key not in (*self.library.groups, *self.library.keys):
            unknown = self.library.hints.unknown_key(key, self.library.groups)
            self._refuse(key, unknown.found, unknown.allowed, unknown.suggestion)
        elif override.package is not None:
            fault = "names a package after @, but each group has a fixed package"
            allowed = f"remove @{override.package}"
            self._refuse(f"{key}@{override.package}", fault, allowed, own_form)
        elif override.adds_key:
            fault = 'begins with "+", which adds a key'
            allowed = "every key already exists; remove the +"
            self._refuse(key, fault, allowed, own_form)
        elif override.is_sweep:
            self._check_sweep(override)
        return len(self.problems) == n_problems

    def _check_sweep(self, override: TypedOverride) -> None:
        """Refuse several values of a key if they cannot make rows or seeds."""
        key = override.key
        group = key.split(".")[0]
        if not self.sweeps:
            allowed = "give one value; only `plan` and `sweep` take several"
            self._refuse(key, "lists several values", allowed)
        elif override.is_interval:
            self._refuse(
                key, "is an interval", "list its values, such as 0.1,0.2, or use range(1,4)"
            )
        elif group in FIXED or group == "paths":
            takes_list = key in ("sweep.rows", "sweep.seeds", "sweep.base_seeds")
            list_form = f"give one list, such as {key}=[…]"
            allowed = list_form if takes_list else "give one value for all rows"
            self._refuse(key, "lists several values, but is the same for all rows", allowed)

    def _options(self, override: TypedOverride) -> list[Any]:
        """The options without quotes; None for one that does not exist, which is refused."""
        return [self._option(override.key, text) for text in override.value_texts]

    def _option(self, group: str, text: str) -> str | None:
        """The option without quotes; None if it does not exist, which is refused."""
        name = text.strip("'\"")
        if group == "row" and self.makes_rows:
            return name
        recorded = self.recorded_rows if group == "row" else []
        problem = self.library.folders.unknown_option(group, name, COMMAND_LINE, recorded)
        if problem is None:
            return name
        suggestion = problem.suggestion and f"{group}={problem.suggestion}"
        self._refuse(group, problem.found, problem.allowed, suggestion)
        return None

    def _values(self, override: TypedOverride) -> list[Any]:
        """The values as Hydra reads them. A name made of digits stays text, as you typed it."""
        key = override.key
        typed_texts = _typed_texts(override) if is_text(self.library.keys[key]) else []
        if typed_texts:
            return [_as_text(key, text) for text in typed_texts]
        return [_plain_value(key, text) for text in override.value_texts]

    def _refuse(self, key: str, fault: str, allowed: str, suggestion: str | None = None) -> None:
        nearest_text = suggestion and for_shell(suggestion)
        self.problems.append(Problem(key, fault, allowed, nearest_text, COMMAND_LINE))


def _plain_value(key: str, text: str) -> Any:
    """The value as Hydra reads it."""
    override = parsed(f"{key}={text}")
    return override.value if override else text


def _as_text(key: str, text: str) -> Any:
    """The same, but the text itself for a number."""
    value = _plain_value(key, text)
    return text if isinstance(value, int | float) else value


def _typed_texts(override: TypedOverride) -> list[str]:
    """The values as you typed them: Hydra lists 1.10 as 1.1. Empty if Hydra computes them, as in
    ``range(1,4)``."""
    if not override.is_sweep:
        return override.value_texts
    listed = re.sub(r"^choice\((.*)\)$", r"\1", override.value_text)
    texts = [text.strip() for text in LISTED.findall(listed)]
    are_values = all(parsed(f"{override.key}={text}") for text in texts)
    return texts if are_values and len(texts) == len(override.value_texts) else []


def _repeated_keys(text: str) -> list[str]:
    """The keys that one pair of braces in the text of a list or dict has twice."""
    repeated = set[str]()
    open_keys = list[set[str] | None]()  # of each open brace; None for another bracket
    expects_key = False
    for token in TOKEN.finditer(text):
        symbol, key = token[0], token[1]
        if symbol in "{[(":
            open_keys.append(set() if symbol == "{" else None)
        elif symbol in "}])" and open_keys:
            open_keys.pop()
        keys = open_keys[-1] if open_keys else None
        if key and expects_key and keys is not None:
            if key in keys:
                repeated.add(key)
            keys.add(key)
        expects_key = symbol in "{,"
    return sorted(repeated)
