"""A study whose folder was moved: its recorded paths are resolved from the current folder of its runs."""

import os
from pathlib import Path
from typing import Any


def moved(path: str, before: str | None, now: Path) -> str:
    """A recorded path if it exists; otherwise the same path relative to today's runs, if that exists.

    ``before`` and ``now`` are the folders of the runs when the path was recorded, and today.
    """
    if before is None or "://" in path or Path(path).exists():
        return path
    there = os.path.normpath(now / os.path.relpath(path, before))
    return there if Path(there).exists() else path


def moved_value(value: Any, before: str | None, now: Path) -> Any:
    """``moved`` for each file of a list; None stays None."""
    return [moved(name, before, now) for name in value] if isinstance(value, list) else value
