"""A trial's ``config.yaml`` as plain data."""

import re
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
    text = _text(path)
    if text is None:
        return None
    config = _parsed(path, text)
    wrong = shapes.config(config, card) if isinstance(config, dict) and config else "must hold groups of keys"
    if wrong:
        raise DamagedFileError(path, wrong)
    return dict(config)


def group_of(path: Path, name: str) -> Any:
    """One group, or the key: the rest of the file is not parsed. None without it. Raises DamagedFileError."""
    found = re.search(rf"^{name}:.*\n?(?:[ \t].*\n?)*", _text(path) or "", re.MULTILINE)
    return found and _parsed(path, found[0])[name]


def recorded_runs(study: Path) -> list[str]:
    """Every ``paths.runs`` with which a trial of the study began: several if the study was moved in between."""
    places = (unless_damaged(partial(group_of, path, "paths"), None) for path in sorted(study.glob("*/config.yaml")))
    found = [of.get("runs") for of in places if isinstance(of, dict)]
    return list(dict.fromkeys(runs for runs in found if isinstance(runs, str)))


def _text(path: Path) -> str | None:
    content = read_whole(path)
    if content is None:
        return None
    text = decoded(path, content)
    if not text.strip():
        raise DamagedFileError(path, "is empty")
    return text


def _parsed(path: Path, text: str) -> Any:
    try:
        return plain_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        cause = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise DamagedFileError(path, f"not YAML: {cause}", mark and mark.line + 1) from None


def plain_yaml(text: str) -> Any:
    """YAML as plain data: by libyaml, seven times as fast, if a sweep may have written it. Raises as
    ``yaml.safe_load``, with its messages.

    Libyaml crashes on deep nesting, which takes long lines or many brackets.
    """
    if text.count("[") + text.count("{") <= MOST_BRACKETS and max(map(len, text.split("\n"))) <= LONGEST_LINE:
        with suppress(yaml.YAMLError, ValueError, RecursionError):
            return yaml.load(text, Loader=FAST)
    return yaml.safe_load(text)
