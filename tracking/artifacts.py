"""The texts that a trial keeps for a scored set: hypotheses, and each sentence's part of the scores."""

from collections.abc import Iterable
from typing import Any

from tracking.files import to_json


def hypotheses_name(set_name: str) -> str:
    """The path in the trial's folder."""
    return f"hypotheses/{set_name}.txt"


def hypotheses_text(lines: Iterable[str]) -> str:
    """One translation per line. A line break inside one becomes a space, since lines align with sources."""
    return "".join(" ".join(line.splitlines()) + "\n" for line in lines)


def statistics_name(set_name: str) -> str:
    """The path in the trial's folder."""
    return f"statistics/{set_name}.jsonl"


def statistics_text(head: dict[str, Any], sentences: Iterable[dict[str, Any]]) -> str:
    """The head with the scores in the first line, then each sentence's part of them, in the set's order."""
    return "".join(to_json(line) + "\n" for line in (head, *sentences))
