"""The overrides that name a study, and those of the next command on it. It needs no Hydra."""

from collections.abc import Sequence
from pathlib import Path

from tracking.shell import quoted
from tracking.study import study_folders

PLACES = ("paths.", "tracking")
STUDY_NAMES = ("task=", "data=", "scale=", "sweep=", "sweep.name=")
NAMING = (*STUDY_NAMES, *PLACES)
FREE = (
    *PLACES,
    "cluster",
    "sweep.max_failures=",
    "sweep.stall_minutes=",
    "sweep.share=",
    "sweep.references",
    "sweep.paired=",
    "sweep.margin=",
    "data.mirror=",
)
"""What the next command on a study repeats, next to the study's name and to settings that only
observe: where and on what it runs, and what its rows are compared with."""


def naming(overrides: Sequence[str] | None) -> list[str]:
    """The overrides that identify a study and its location."""
    return chosen(overrides, NAMING)


def names_study(overrides: Sequence[str] | None) -> bool:
    """Whether the overrides name a study, and not only its location."""
    return bool(chosen(overrides, STUDY_NAMES))


def chosen(overrides: Sequence[str] | None, *kinds: tuple[str, ...]) -> list[str]:
    """The overrides of these kinds, in the order typed."""
    starts = tuple(start for kind in kinds for start in kind)
    return [override for override in overrides or [] if override.startswith(starts)]


def on_recorded(study: Path, overrides: Sequence[str] | None) -> list[str]:
    """The same overrides, but with the recorded study's name in place of what makes it up. A sweep
    also selects rows."""
    in_name = tuple(name for name in STUDY_NAMES if name != "sweep=")
    kept = [override for override in overrides or [] if not override.startswith(in_name)]
    return [by_name(study), *kept]


def by_name(study: Path) -> str:
    """The override that names a recorded study."""
    return f"sweep.name={quoted(study.name)}"


def placed(study: Path) -> list[str]:
    """The override for the folder of the study, unless that is where a command looks by itself."""
    runs = study.parent
    return [] if runs == (Path.cwd() / "runs").resolve() else [f"paths.runs={quoted(str(runs))}"]


def looking(study: Path, overrides: Sequence[str] | None) -> list[str]:
    """The overrides for a verb that reads the study: its name, unless it is the only one, and its
    places."""
    name = [by_name(study)] if len(study_folders(study.parent)) > 1 else []
    return [*name, *chosen(overrides, PLACES)]
