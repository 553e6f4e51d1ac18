"""The command line's ``key=value`` overrides: parsed by Hydra's grammar, checked against the schema, all at once."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from sweeps.planning.settings import Settings
from sweeps.planning.yaml_files import Library
from transformer.schema import Problem, keys, nearest
from transformer.versions import current_key

COMMAND_LINE = "command line"
HOW_TO_WRITE = (
    """must look like train.steps=100; put quotes around a value with special characters: "paths.runs='~/runs'\""""
)


@dataclass
class Overrides:
    """Chosen group options, such as scale=half, and values, such as model.n_heads=4."""

    choices: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

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
    overrides: list[str], library: Library, recorded_rows: Iterable[str] = ()
) -> tuple[Overrides, list[Problem]]:
    """The parsed overrides, and their problems. ``row=`` also takes rows that only a study records."""
    parsed, problems = Overrides(), []
    for text in overrides:
        try:
            override = OverridesParser.create().parse_override(text)
        except HydraException:
            meant = _row_of(text, library)
            problems.append(Problem(text, "is not key=value", HOW_TO_WRITE, meant, COMMAND_LINE))
            continue
        override.key_or_group = current_key(Settings, override.key_or_group)
        recorded = override.key_or_group == "row" and override.value() in list(recorded_rows)
        problem = None if recorded else _problem(override, library)
        if problem:
            problems.append(problem)
        elif override.key_or_group in library.groups:
            parsed.choices[override.key_or_group] = str(override.value())
        else:
            parsed.values[override.key_or_group] = override.value()
    return parsed, problems


def _problem(override: Override, library: Library) -> Problem | None:
    key = override.key_or_group
    if override.is_delete():
        return _refused(key, "cannot be removed", "set another value")
    if override.is_sweep_override():
        allowed = "write one file per row; list rows in sweep.rows and seeds in sweep.seeds"
        return _refused(key, "lists several values", allowed)
    if key in library.groups:
        value = override.value()
        if not isinstance(value, str):
            return _refused(key, f"is {value}", f"must be one of {', '.join(library.options(key))}")
        return library.unknown_option(key, value, COMMAND_LINE)
    return None if key in _known_keys() else _unknown(key, library)


def _row_of(text: str, library: Library) -> str | None:
    """The override that is meant by the bare name of a row or trial."""
    row = re.sub(r"-s\d+$", "", text)
    return f"row={row}" if row in library.options("row") else None


def _known_keys() -> list[str]:
    return keys(Settings)


def _unknown(key: str, library: Library) -> Problem:
    known = [*_known_keys(), *library.groups]
    near = nearest(key, known)
    branch = (near or key).rsplit(".", 1)[0] + "."
    siblings = [name.removeprefix(branch) for name in known if name.startswith(branch)]
    allowed = f"keys under {branch[:-1]} are {', '.join(siblings)}" if siblings else "`ablate config` shows every key"
    return Problem(key, "is not a key", allowed, near, COMMAND_LINE)


def _refused(key: str, found: str, allowed: str) -> Problem:
    return Problem(key, found, allowed, None, COMMAND_LINE)
