"""The rows that ``sweep.rows`` lists."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sweeps.planning.yaml_files import Library
from sweeps.schema import Problem

ALL = "all"
"""``sweep.rows=all``: the rows that the sweep's file lists."""


def selected(asked: Any, exists: Callable[[str], bool], library: Library) -> tuple[list[str], list[Problem]]:
    """The rows of ``sweep.rows`` that exist, each once; names that do not exist or are listed twice are refused."""
    if not isinstance(asked, list) or not asked:
        allowed = "must be a list of rows, such as [base,big], or all"
        return [], [Problem("sweep.rows", f"is {asked}", allowed)]
    names, problems = [str(name) for name in asked], []
    for name in names:
        unknown = None if exists(name) else library.unknown_option("row", name, None)
        problems += [replace(unknown, key="sweep.rows")] if unknown else []
    for name in sorted({name for name in names if names.count(name) > 1}):
        found = f"lists {name} {names.count(name)} times"
        problems.append(Problem("sweep.rows", found, "must list each row once"))
    return [name for name in dict.fromkeys(names) if exists(name)], problems
