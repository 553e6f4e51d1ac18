"""The YAML files of ``conf/``: the shipped ones and the user's in ``./conf``, and the line that sets a key."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

import sweeps
from transformer.schema import Problem, nearest


def shipped_folder(package: Path) -> Path:
    """The shipped ``conf/``: inside the package in a wheel, next to it in a checkout, also an editable one."""
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


SHIPPED = shipped_folder(Path(sweeps.__file__).resolve().parent)
HEADER = re.compile(r"\s*#\s*@package +_global_\s*$", re.MULTILINE)  # Hydra reads it before any other line
ABOUT_ALL_GROUPS = ("row", "scale")
"""Groups whose files set keys of other groups. Without the header, Hydra would read those as the group's keys."""


@dataclass(frozen=True)
class Library:
    """Every configuration file that can be named from ``here``."""

    here: Path

    @cached_property
    def own(self) -> Path | None:
        """The user's ``./conf``; None if it is missing or is the shipped folder."""
        folder = (self.here / "conf").resolve()
        return folder if folder.is_dir() and folder != SHIPPED else None

    @cached_property
    def groups(self) -> list[str]:
        return sorted(path.name for path in SHIPPED.iterdir() if path.is_dir() and any(path.glob("*.yaml")))

    @cached_property
    def defaults(self) -> dict[str, str]:
        """The default option of each group."""
        listed = yaml.safe_load((SHIPPED / "config.yaml").read_text("utf-8"))["defaults"]
        return {group: name for entry in listed if isinstance(entry, dict) for group, name in entry.items()}

    def options(self, group: str) -> list[str]:
        """The names that ``group=`` takes."""
        found = [path.stem for folder in self._folders() for path in folder.glob(f"{group}/*.yaml")]
        return sorted(set(found))

    def unknown_option(self, group: str, name: str, place: str | None) -> Problem | None:
        options = self.options(group)
        if name in options:
            return None
        allowed = f"must be one of {', '.join(options)}"
        found = f'is "{name}", but conf/{group}/ has no such file'
        return Problem(group, found, allowed, nearest(name, options), place)

    def shadows(self) -> list[Problem]:
        """The user's files that have the name of a shipped file and other content."""
        if self.own is None:
            return []
        allowed = "rename it, or make it identical to the shipped file"
        return [
            Problem(str(path.relative_to(self.own)), "shadows a shipped file", allowed, None, self.show(path))
            for path in sorted(self.own.rglob("*.yaml"))
            if _differs(path, SHIPPED / path.relative_to(self.own))
        ]

    @cached_property
    def broken(self) -> dict[Path, Problem]:
        """The user's files that are not YAML, with the line, and those whose keys Hydra would misplace."""
        files = sorted(self.own.rglob("*.yaml")) if self.own else []
        return {path: problem for path in files if (problem := self._broken(path)) is not None}

    def _broken(self, path: Path) -> Problem | None:
        try:
            text = path.read_text("utf-8")
            yaml.compose(text)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            place = f"{self.show(path)}:{mark.line + 1}" if mark else self.show(path)
            cause = getattr(error, "problem", None) or str(error)
            return Problem(path.stem, f"cannot be read: {cause}", "must be valid YAML", None, place)
        shadows = (SHIPPED / path.parent.name / path.name).exists()  # already refused
        if path.parent.name in ABOUT_ALL_GROUPS and not HEADER.match(text) and not shadows:
            found = 'lacks "# @package _global_"'
            return Problem(path.stem, found, "must begin with that line", None, f"{self.show(path)}:1")
        return None

    def is_broken(self, group: str, name: str) -> bool:
        return self.own is not None and self.own / group / f"{name}.yaml" in self.broken

    def path(self, group: str, name: str) -> Path:
        return next(p for folder in self._folders() if (p := folder / group / f"{name}.yaml").exists())

    def show(self, path: Path) -> str:
        """A path in the form that the user can open: relative to ``here`` if it lies inside."""
        return str(path.relative_to(self.here)) if path.is_relative_to(self.here) else str(path)

    def locate(self, key: str, choices: dict[str, str]) -> str | None:
        """file:line of the first file that sets the key: the row's, the scale's, config.yaml, the other groups'."""
        there = [group for group, name in choices.items() if name in self.options(group)]  # a row's may be gone
        last = [group for group in ABOUT_ALL_GROUPS if group in there]
        others = sorted(group for group in there if group not in last)
        files = [
            *((self.path(group, choices[group]), "") for group in last),
            (SHIPPED / "config.yaml", ""),
            *((self.path(group, choices[group]), group) for group in others),
        ]
        for path, package in files:
            inner = key.removeprefix(f"{package}.") if package else key
            line = (
                _line(yaml.compose(path.read_text("utf-8")), inner.split(".")) if inner != key or not package else None
            )
            if line:
                return f"{self.show(path)}:{line}"
        return None

    def _folders(self) -> list[Path]:
        return [SHIPPED, self.own] if self.own else [SHIPPED]


def _line(node: yaml.Node | None, names: list[str]) -> int | None:
    """The line, counted from 1, on which a mapping sets the dotted key."""
    if not isinstance(node, yaml.MappingNode):
        return None
    for name_node, value_node in node.value:
        if name_node.value == names[0]:
            return name_node.start_mark.line + 1 if len(names) == 1 else _line(value_node, names[1:])
    return None


def _differs(path: Path, shipped: Path) -> bool:
    return shipped.exists() and path.read_bytes() != shipped.read_bytes()
