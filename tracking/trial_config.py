"""A trial's ``config.yaml`` as plain data."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import tracking.shapes as shapes
from tracking.card import Card
from tracking.damage import DamagedFileError, decoded, read_whole, unless_damaged

FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_BRACKETS, LONGEST_LINE = 1000, 1000


def read_config(path: Path, card: Card | None = None) -> dict[str, Any] | None:
    """The groups of keys; None without a file. ``card`` names those that must exist. Raises DamagedFileError."""
    content = read_whole(path)
    if content is None:
        return None
    text = decoded(path, content)
    if not text.strip():
        raise DamagedFileError(path, "is empty")
    try:
        config = plain_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        cause = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise DamagedFileError(path, f"not YAML: {cause}", mark and mark.line + 1) from None
    wrong = shapes.config(config, card) if isinstance(config, dict) and config else "must hold groups of keys"
    if wrong:
        raise DamagedFileError(path, wrong)
    return dict(config)


def plain_yaml(text: str) -> Any:
    """YAML as plain data: by libyaml, seven times as fast, if a sweep may have written it. Raises as
    ``yaml.safe_load``, with its messages.

    Libyaml crashes on deep nesting, which takes long lines or many brackets.
    """
    if text.count("[") + text.count("{") <= MOST_BRACKETS and max(map(len, text.split("\n"))) <= LONGEST_LINE:
        with suppress(yaml.YAMLError, ValueError, RecursionError):
            return yaml.load(text, Loader=FAST)
    return yaml.safe_load(text)


def key_of(path: Path) -> str | None:
    """The trial key in the first line, where a sweep writes it; None without it. Raises DamagedFileError."""
    first = (read_whole(path) or b"").partition(b"\n")[0].split(b": ")
    return first[1].decode("ascii", "replace") if len(first) == 2 and first[0] == b"key" else None


def recorded_runs(study: Path) -> list[str]:
    """Every ``paths.runs`` with which a trial of the study began: several if the study was moved in between."""
    contents = (unless_damaged(partial(read_whole, path), None) for path in sorted(study.glob("*/config.yaml")))
    found = [_runs(places) for places in dict.fromkeys(_places(content or b"") for content in contents)]
    return list(dict.fromkeys(runs for runs in found if isinstance(runs, str)))


def _places(content: bytes) -> bytes:
    """The last group, ``paths``, which is the same in most trials; everything where it is not the last."""
    start = content.rfind(b"\npaths:\n")
    return content[start:] if start >= 0 else content


def _runs(places: bytes) -> Any:
    try:
        found = plain_yaml(places.decode("utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    paths = found.get("paths") if isinstance(found, dict) else None
    return paths.get("runs") if isinstance(paths, dict) else None
