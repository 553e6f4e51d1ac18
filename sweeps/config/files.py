"""Configuration files of a task: where they lie, in the order in which Hydra searches them, and what is wrong there."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import yaml

import sweeps
from sweeps.config.schema import PLATFORM, Schema
from sweeps.config.tasks import OURS, TaskSource
from sweeps.schema import UNKNOWN_KEY, Problem, RefusedError, nearest

TASKS = "task"
"""The folder of ``conf/`` for tasks of one's own: each has a folder there, and all share its files."""
SHARED_FOLDER = "shared"
"""The folder of ``conf/`` for what all tasks share: cluster, tracking, sweep."""
CONFIG = "config"
BASE = "base"


def shipped_folder(package: Path) -> Path:
    """The shipped ``conf/``: inside the package in a wheel, next to it in a checkout, also an editable one."""
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


SHIPPED = shipped_folder(Path(sweeps.__file__).resolve().parent)


@dataclass(frozen=True)
class Folders:
    """The folders of a task for a command in the folder ``here``, which may have a ``conf/`` of the user's."""

    here: Path
    source: TaskSource

    @property
    def place(self) -> Path:
        """The task's folder below a ``conf/``."""
        name = self.source.task.name
        return Path() if name in OURS else Path(TASKS, name)

    @cached_property
    def own(self) -> Path | None:
        """The user's ``./conf``; None if it is missing or is the shipped folder."""
        folder = (self.here / "conf").resolve()
        return folder if folder.is_dir() and folder != SHIPPED else None

    @cached_property
    def searched(self) -> tuple[Path, ...]:
        """The task's own folder, that around it, and what all tasks share; each the shipped one first.

        Hydra takes ``config`` from the first of all, which is a shipped one.
        """
        found = [conf / folder for folder in self._around for conf in (SHIPPED, self.own) if conf]
        first = next(folder for folder in found if (folder / f"{CONFIG}.yaml").is_file() and not self.is_own(folder))
        return tuple(folder for folder in dict.fromkeys([first, *found]) if folder.is_dir())

    @property
    def _around(self) -> tuple[Path, ...]:
        return (self.place, *self.place.parents[:-1], Path(SHARED_FOLDER))

    def find(self, path: str) -> Path | None:
        """The file that Hydra reads for ``group/option`` or ``config``."""
        return next((file for folder in self.searched if (file := folder / f"{path}.yaml").is_file()), None)

    def options(self, group: str) -> list[str]:
        """The names that ``group=`` takes."""
        files = (file for folder in self.searched for file in folder.glob(f"{group}/*.yaml") if file.is_file())
        return sorted({file.stem for file in files if not file.name.startswith(".")})  # as an editor's lock

    def misnamed(self, group: str) -> list[Problem]:
        """The user's files of a group that Hydra would pass over, since they end in .yml or .YAML."""
        problems: list[Problem] = []
        for folder in filter(self.is_own, self.searched):
            files = (file for file in sorted((folder / group).glob("[!.]*")) if file.is_file())
            problems += [self._misnamed(file) for file in files if _is_misnamed(file)]
        return problems

    def _misnamed(self, file: Path) -> Problem:
        fault = f"ends in {file.suffix}, and only files that end in .yaml are read"
        return Problem(file.name, fault, f"rename it to {file.stem}.yaml", None, self.show(file))

    def is_own(self, file: Path) -> bool:
        """Whether the file or folder is the user's."""
        return not file.is_relative_to(SHIPPED)

    def written_to(self, path: str) -> str:
        """Where the user writes a file of the task, as messages name it."""
        return f"conf/{self.place / path}.yaml"

    def show(self, file: Path) -> str:
        """The file relative to the user's folder or to the shipped one."""
        for root in (self.here.resolve(), self.here, SHIPPED.parent):
            if file.is_relative_to(root):
                return str(file.relative_to(root))
        return str(file)

    def unknown_option(
        self, group: str, name: str, place: str | None = None, more: Iterable[str] = ()
    ) -> Problem | None:
        """The refusal of a name for which there is no file; ``more`` names are known without one."""
        options = list(dict.fromkeys([*self.options(group), *more]))
        if name in options:
            return None
        for problem in self.misnamed(group):
            if Path(problem.key).stem == name:
                fault = f'is "{name}", but {problem.place} {problem.found}'
                return replace(problem, key=group, found=fault, place=place)
        found = f'is "{name}", but {Path(self.written_to(f"{group}/{name}")).parent}/ has no such file'
        return Problem(group, found, f"must be one of {', '.join(options)}", nearest(Path(name).stem, options), place)

    def shadowing(self, path: str) -> list[Problem]:
        """The problem of a user's file with the name of a shipped one, unless they are the same."""
        if self.own is None:
            return []
        places = [Path(folder, f"{path}.yaml") for folder in self._around]
        both = [(self.own / place, SHIPPED / place) for place in places]
        found = [own for own, shipped in both if shipped.is_file() and own.exists() and _differs(own, shipped)]
        allowed = "rename it, or make it identical to the shipped file"
        return [Problem(f"{path}.yaml", "shadows a shipped file", allowed, None, self.show(own)) for own in found]

    @property
    def ignored(self) -> str | None:
        """The user's ``conf/config.yaml``, which nothing reads: it may belong to another program."""
        file = self.own / f"{CONFIG}.yaml" if self.own else None
        same = file and self.place == Path() and not _differs(file, SHIPPED / file.name)
        return self.show(file) if file and file.is_file() and not same else None


def _is_misnamed(file: Path) -> bool:
    return file.suffix.lower() in (".yml", ".yaml") and file.suffix != ".yaml"


def _differs(file: Path, shipped: Path) -> bool:
    return not file.is_file() or file.read_bytes() != shipped.read_bytes()


ABOUT_ALL_GROUPS = ("row", "scale")
"""Groups whose files set keys of other groups. Without the header, Hydra reads those as the group's own keys."""
HEADER = re.compile(r"([ \t]*(#.*)?\n)*?[ \t]*#[ \t]*@package[ \t]+(?P<package>\S+)")
"""The package among the first comments, which may hold a license before it."""
MISREAD = re.compile(r"[-+]?0[\d_]+$|.*:")
"""Numbers that YAML 1.1 reads as octal or as base 60."""
MISSING = "???"
"""How OmegaConf writes a value that is yet to be given."""
BARE_MISSING = re.compile(r"(?<=[\s:,\[{])\?\?\?(?=\s*([,}\]#]|$))", re.MULTILINE)
"""The same without quotes, which YAML does not read within braces."""
HOW_TO_GIVE = f"give it a value: {MISSING} stands for one that is missing"
NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def examined(path: Path, shown: str, group: str, schema: Schema) -> list[Problem]:
    """The problems of the file ``path``, which messages call ``shown``; ``group`` is "" for base.

    Raises RefusedError if it is not YAML, or if Hydra would read something else than it says.
    """
    about_all = group in ("", *ABOUT_ALL_GROUPS)
    try:
        text = path.read_text("utf-8-sig")
        root = _composed(text)
        if not isinstance(root, yaml.MappingNode) or not root.value:
            raise ValueError("it holds no keys")
        keys = list(_keys(root, "" if about_all else group))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        reason, line = reason_of(error)
        found = f"is not plain YAML: {reason}"
        allowed = "must hold groups of keys in UTF-8"
        raise RefusedError([Problem(path.stem, found, allowed, None, f"{shown}{line}")]) from None
    misread = [_misread(key, node, f"{shown}:{line}") for key, line, node in keys if _is_misread(node)]
    missing = [(key, f"{shown}:{line}") for key, line, node in keys if node.value == MISSING]
    misread += [Problem(key, f"is {MISSING}", HOW_TO_GIVE, None, place) for key, place in missing]
    if group in ABOUT_ALL_GROUPS and not HEADER.match(text):
        allowed = 'must begin with "# @package _global_"'
        misread.append(Problem(path.stem, 'lacks "# @package _global_"', allowed, None, f"{shown}:1"))
    parts = list(_part_problems(root, keys, group, shown, schema)) if about_all else []
    if misread:
        raise RefusedError([*misread, *parts])
    return parts


def _composed(text: str) -> yaml.Node | None:
    """The nodes of a file; a missing value is a text where YAML does not read it. Raises YAMLError."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return yaml.compose(BARE_MISSING.sub(f'"{MISSING}"', text), Loader=yaml.SafeLoader)


def reason_of(error: Exception) -> tuple[str, str]:
    """Why a file cannot be read, and ``:line`` if that is known."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
        return "it is not UTF-8 text", f":{line}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply", ""
    mark = getattr(error, "problem_mark", None)
    lines = str(error).strip().splitlines()
    reason = getattr(error, "problem", None) or next(iter(lines), "it is no configuration")
    return reason, f":{mark.line + 1}" if mark else ""


def lines_of(path: Path) -> dict[str, int]:
    """The first line, counted from 1, on which a file sets each dotted key."""
    root = yaml.compose(path.read_text("utf-8-sig"), Loader=yaml.SafeLoader)
    return {key: line for key, line, _ in reversed([*_keys(root)])}


def _keys(node: yaml.Node | None, key: str = "") -> Iterator[tuple[str, int, yaml.Node]]:
    """Each dotted key below a node with its line and its value. The items of a list have the key of the list."""
    inner = []
    if isinstance(node, yaml.MappingNode):
        inner = [(f"{key}.{name.value}".lstrip("."), name, value) for name, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        inner = [(key, item, item) for item in node.value]
    for name, start, value in inner:
        yield name, start.start_mark.line + 1, value
        yield from _keys(value, name)


def _is_misread(node: yaml.Node) -> bool:
    """Whether YAML reads a number as another than it looks like."""
    return node.tag in NUMBER_TAGS and getattr(node, "style", "") is None and bool(MISREAD.match(node.value))


def _misread(key: str, node: yaml.Node, place: str) -> Problem:
    read = yaml.safe_load(node.value)
    fix = f"write {read}, or put quotes around a text"
    return Problem(key, f"is {node.value}, which YAML reads as {read}", fix, None, place)


def _part_problems(
    root: yaml.MappingNode, keys: Iterable[tuple[str, int, yaml.Node]], group: str, shown: str, schema: Schema
) -> Iterator[Problem]:
    """What the file of a row, of a scale or of base may not set."""
    groups = (*filter(None, [group]), *schema.groups)
    owner = f"a {group}" if group else BASE
    for node, _ in root.value:
        if node.value not in (*groups, "defaults"):
            known = node.value in (*PLATFORM, "task", "hydra")
            found, near = (f"is set by {owner}", None) if known else (UNKNOWN_KEY, nearest(node.value, groups))
            allowed = f"{owner} sets only {', '.join(groups)}"
            yield Problem(node.value, found, allowed, near, f"{shown}:{node.start_mark.line + 1}")
    seeded = next((line for key, line, _ in keys if group and key == schema.seed), None)
    if schema.seed and seeded:
        allowed = "set the seeds of all rows with sweep.seeds=[1,2,3]"
        yield Problem(schema.seed, f"is set by {owner}", allowed, None, f"{shown}:{seeded}")
