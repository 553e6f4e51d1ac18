"""The overrides that identify a study, and the overrides of the next command on it."""

import re
from pathlib import Path

from sweeps.planning.yaml_files import SHIPPED, Library
from transformer.config import OBSERVATION

PLACES = ("paths.", "tracking")
NAMING = ("data=", "scale=", "sweep=", "sweep.name=", *PLACES)
FREE = (*PLACES, "cluster", "sweep.max_failures=", "data.mirror=", *(f"train.{name}=" for name in sorted(OBSERVATION)))
"""The settings of a study that may change at any time."""
DECODING = ("decode=", "decode.")
SELECTING = ("sweep=", "sweep.rows=", "sweep.vary", "sweep.grid", "sweep.seeds=", "row=", "train.seed=")


def naming(overrides: list[str] | None) -> list[str]:
    """The overrides that identify a study and its location."""
    return chosen(overrides, NAMING)


def chosen(overrides: list[str] | None, *kinds: tuple[str, ...]) -> list[str]:
    """The overrides of these kinds, in the order typed."""
    starts = tuple(start for kind in kinds for start in kind)
    return [override for override in overrides or [] if override.startswith(starts)]


def called(study: Path) -> list[str]:
    """The shortest overrides that name a recorded study; none for the default study."""
    defaults = Library(SHIPPED).defaults
    if study.name == f"{defaults['data']}-{defaults['scale']}":
        return []
    plain = re.fullmatch(r"[A-Za-z_][\w.-]*", study.name, re.ASCII) and study.name not in ("null", "true", "false")
    quoted = study.name.replace("\\", "\\\\").replace("'", "\\'")
    return [f"sweep.name={study.name}" if plain else f"sweep.name='{quoted}'"]


def looking(study: Path, overrides: list[str] | None) -> list[str]:
    """The overrides for a verb that reads the study: its name and its places."""
    return [*called(study), *chosen(overrides, PLACES)]


def going_on(study: Path, overrides: list[str] | None, *more: tuple[str, ...]) -> list[str]:
    """The overrides for a verb that runs the study: its name, and the settings that may change."""
    return [*called(study), *chosen(overrides, FREE, *more)]
