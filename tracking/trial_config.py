"""A trial's ``config.yaml`` as plain data."""

from functools import partial
from pathlib import Path
from typing import Any

import yaml

import tracking.shapes as shapes
from tracking.card import Card
from tracking.damage import DamagedFileError, decoded, read_whole, unless_damaged


def read_config(path: Path, card: Card | None = None) -> dict[str, Any] | None:
    """The groups of keys; None without a file. ``card`` names those that must exist. Raises DamagedFileError."""
    content = read_whole(path)
    if content is None:
        return None
    text = decoded(path, content)
    if not text.strip():
        raise DamagedFileError(path, "is empty")
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        cause = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise DamagedFileError(path, f"not YAML: {cause}", mark and mark.line + 1) from None
    wrong = shapes.config(config, card) if isinstance(config, dict) and config else "must hold groups of keys"
    if wrong:
        raise DamagedFileError(path, wrong)
    return dict(config)


def recorded_runs(study: Path) -> list[str]:
    """Every ``paths.runs`` with which a trial of the study began: several if the study was moved in between."""
    configs = (unless_damaged(partial(read_config, path), None) for path in sorted(study.glob("*/config.yaml")))
    found = [(config or {}).get("paths", {}).get("runs") for config in configs]
    return list(dict.fromkeys(runs for runs in found if isinstance(runs, str)))
