"""The texts that a trial keeps for a scored set: the task's own, and each sample's part of the scores."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from tracking.files import to_json

TAKEN = ("checkpoints", "statistics")
"""Folders of a trial whose files have a form of their own."""


def is_artifact_name(name: str) -> bool:
    """Whether a task may keep a text at this path in the trial's folder: below a folder, so over none of our files."""
    parts = PurePosixPath(name).parts
    plain = name.isprintable() and not any(part.startswith((".", "/")) for part in parts)
    return plain and len(parts) > 1 and parts[0] not in TAKEN


def statistics_name(set_name: str) -> str:
    """The path in the trial's folder."""
    return f"statistics/{set_name}.jsonl"


def statistics_text(head: dict[str, Any], samples: Iterable[dict[str, Any]]) -> str:
    """The head with the scores in the first line, then each sample's part of them, in the set's order."""
    return "".join(to_json(line) + "\n" for line in (head, *samples))
