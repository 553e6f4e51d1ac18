"""The YAML files of ``conf/``: the shipped ones and the user's in ``./conf``, and the line that sets a key."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

import sweeps
from sweeps.planning.suggestions import option_meant
from sweeps.planning.yaml_content import ABOUT_ALL_GROUPS, Examined, examined
from transformer.schema import Problem


def shipped_folder(package: Path) -> Path:
    """The shipped ``conf/``: inside the package in a wheel, next to it in a checkout, also an editable one."""
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


SHIPPED = shipped_folder(Path(sweeps.__file__).resolve().parent)


@dataclass(frozen=True)
class Library:
    """Every configuration file that can be named from ``here``. Files that nobody names are not opened."""

    here: Path

    @cached_property
    def own(self) -> Path | None:
        """The user's ``./conf``; None if it is missing or is the shipped folder."""
        folder = Path(os.path.realpath(self.here / "conf"))
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
        return self._options[group]

    @cached_property
    def _options(self) -> dict[str, list[str]]:
        folders = [SHIPPED, self.own] if self.own else [SHIPPED]
        return {
            group: sorted({path.stem for folder in folders for path in _yaml_files(folder / group) if path.is_file()})
            for group in self.groups
        }

    def unknown_option(self, group: str, name: str, place: str | None) -> Problem | None:
        """The refusal of a name for which no file exists. A file that cannot be read is no unknown option."""
        options = self.options(group)
        if name in options or self._own_file(group, name) is not None:
            return None
        misplaced = self._misplaced(group, name)
        if misplaced is not None:
            found = f'is "{name}", but its file is {self.show(misplaced)}'
            return Problem(group, found, f"move or rename it to conf/{group}/{name}.yaml", None, place)
        allowed = f"must be one of {', '.join(options)}"
        found = f'is "{name}", but conf/{group}/ has no such file'
        return Problem(group, found, allowed, option_meant(group, name, options), place)

    def examined(self, group: str, name: str) -> Examined:
        """Every problem of the user's file of this option, line by line. Shipped files have none."""
        path, shipped = self._own_file(group, name), SHIPPED / group / f"{name}.yaml"
        if path is None or not shipped.exists():
            return Examined() if path is None else examined(path, self.show(path), group)
        if not _differs(path, shipped):
            return Examined()
        allowed = "rename it, or make it identical to the shipped file"
        return Examined((Problem(f"{group}/{name}.yaml", "shadows a shipped file", allowed, None, self.show(path)),))

    @property
    def ignored(self) -> str | None:
        """The user's ``conf/config.yaml``, which nothing reads: it may belong to another program."""
        path = self.own / "config.yaml" if self.own else None
        return self.show(path) if path and path.is_file() and _differs(path, SHIPPED / "config.yaml") else None

    def is_shipped(self, group: str, name: str) -> bool:
        return (SHIPPED / group / f"{name}.yaml").exists()

    def path(self, group: str, name: str) -> Path:
        """The file of an option. The shipped one comes first."""
        shipped = SHIPPED / group / f"{name}.yaml"
        return shipped if shipped.exists() or self.own is None else self.own / group / f"{name}.yaml"

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
            line = _line(yaml.compose(path.read_text("utf-8")), inner) if inner != key or not package else None
            if line:
                return f"{self.show(path)}:{line}"
        return None

    def first_line(self, group: str, name: str, keys: list[str]) -> str:
        """The line of an option's file that sets the first of these keys, or its first line."""
        file = self.show(self.path(group, name))
        line = self.locate(keys[0], {group: name}) if keys else None
        return line if line and line.startswith(file) else f"{file}:1"

    def _own_file(self, group: str, name: str) -> Path | None:
        """The user's file of this option, whatever it is: also a folder, a pipe or a link to nowhere."""
        path = self.own / group / f"{name}.yaml" if self.own else None
        return path if path and os.path.lexists(path) else None

    def _misplaced(self, group: str, name: str) -> Path | None:
        """A file that was probably meant for this option: x.yml, X.YAML, or a file in a similar folder."""
        conf = self.here / "conf"
        folders = [conf / group, conf / f"{group}s", self.here / group, *[conf, self.here] * (group == "row")]
        wanted = {f"{name}{ending}".casefold() for ending in (".yaml", ".yml")}
        names = (path for folder in folders for path in _entries(folder) if path.name.casefold() in wanted)
        return next(names, None)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _yaml_files(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.suffix == ".yaml"]


def _line(node: yaml.Node | None, key: str) -> int | None:
    """The line, counted from 1, on which a mapping sets the dotted key, which it may write as ``a: {b: 1}``."""
    if not isinstance(node, yaml.MappingNode):
        return None
    for name_node, value_node in node.value:
        if name_node.value == key:
            return int(name_node.start_mark.line) + 1
        inner = key.removeprefix(f"{name_node.value}.")
        if inner != key and (line := _line(value_node, inner)):
            return line
    return None


def _differs(path: Path, shipped: Path) -> bool:
    return not path.is_file() or path.read_bytes() != shipped.read_bytes()
