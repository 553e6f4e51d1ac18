"""A task's configuration files: the folders that Hydra searches, in order, and problems of the
files."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import yaml

import sweeps
from sweeps.config.schema import PLATFORM, Schema
from sweeps.config.tasks import OURS, TaskSource
from sweeps.problems import UNKNOWN_KEY, Problem, RefusedError, Typo, refusal

TASKS = "task"
"""The folder of ``conf/`` for users' tasks: each has a folder in it, and they share the files next
to these."""
SHARED_FOLDER = "shared"
"""The folder of ``conf/`` that all tasks share: cluster, tracking, sweep."""
CONFIG = "config"
BASE = "base"


def shipped_folder(package: Path) -> Path:
    """The shipped ``conf/``: inside an installed package, next to the package in a checkout."""
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


SHIPPED = shipped_folder(Path(sweeps.__file__).resolve().parent)


@dataclass(frozen=True)
class Folders:
    """The folders of a task for a command in the folder ``here``, where you may have a
    ``conf/``."""

    here: Path
    source: TaskSource

    @property
    def task_path(self) -> Path:
        """The task's folder, relative to ``conf/``."""
        name = self.source.task.name
        return Path() if name in OURS else Path(TASKS, name)

    @cached_property
    def user_folder(self) -> Path | None:
        """The user's ``./conf``; None if it is missing or is the shipped folder."""
        folder = (self.here / "conf").resolve()
        return folder if folder.is_dir() and folder != SHIPPED else None

    @cached_property
    def searched(self) -> tuple[Path, ...]:
        """The task's folder, the folders around it, and the shared one. Shipped folders come before
        the user's.

        Hydra reads ``config`` from the first folder, which is always a shipped one.
        """
        roots = [SHIPPED]
        if self.user_folder:
            roots.append(self.user_folder)
        folders = [conf / path for path in self._paths for conf in roots]
        first = next(folder for folder in folders if self._is_shipped_config(folder))
        unique_folders = dict.fromkeys([first, *folders])
        return tuple(folder for folder in unique_folders if folder.is_dir())

    def _is_shipped_config(self, folder: Path) -> bool:
        return (folder / f"{CONFIG}.yaml").is_file() and not self.is_own(folder)

    @property
    def _paths(self) -> tuple[Path, ...]:
        """Where the task's files may be, relative to ``conf/``."""
        return (self.task_path, *self.task_path.parents[:-1], Path(SHARED_FOLDER))

    def find(self, path: str) -> Path | None:
        """The file that Hydra reads for ``group/option`` or ``config``; None if there is none."""
        files = (folder / f"{path}.yaml" for folder in self.searched)
        return next((file for file in files if file.is_file()), None)

    def options(self, group: str) -> list[str]:
        """The names that ``group=`` takes."""
        names = set()
        for folder in self.searched:
            for file in folder.glob(f"{group}/*.yaml"):
                is_hidden = file.name.startswith(".")  # an editor's lock, say
                if file.is_file() and not is_hidden:
                    names.add(file.stem)
        return sorted(names)

    def misnamed(self, group: str) -> list[Problem]:
        """Problems of the user's files that Hydra would skip, since they end in .yml or .YAML."""
        return [
            self._misnamed_problem(file)
            for folder in filter(self.is_own, self.searched)
            for file in sorted((folder / group).glob("[!.]*"))
            if file.is_file() and _is_misnamed(file)
        ]

    def _misnamed_problem(self, file: Path) -> Problem:
        fault = f"ends in {file.suffix}, and only files that end in .yaml are read"
        return Problem(file.name, fault, f"rename it to {file.stem}.yaml", place=self.show(file))

    def is_own(self, file: Path) -> bool:
        """Whether the file or folder is the user's."""
        return not file.is_relative_to(SHIPPED)

    def written_to(self, path: str) -> str:
        """Where a user writes this file of the task, for messages."""
        return f"conf/{self.task_path / path}.yaml"

    def show(self, file: Path) -> str:
        """The file's path for messages: relative to the user's folder or to the shipped one."""
        for root in (self.here.resolve(), self.here, SHIPPED.parent):
            if file.is_relative_to(root):
                return str(file.relative_to(root))
        return str(file)

    def unknown_option(
        self, group: str, name: str, location: str | None = None, more_names: Iterable[str] = ()
    ) -> Problem | None:
        """The refusal of an option that doesn't exist; None if it does. ``more_names`` need no
        file."""
        options = list(dict.fromkeys([*self.options(group), *more_names]))
        if name in options:
            return None
        for problem in self.misnamed(group):
            if Path(problem.key).stem == name:
                fault = f'is "{name}", but {problem.place} {problem.found}'
                return replace(problem, key=group, found=fault, place=location)
        folder = Path(self.written_to(f"{group}/{name}")).parent
        fault = f'is "{name}", but {folder}/ has no such file'
        allowed = f"must be one of {', '.join(options)}"
        return Problem(group, fault, allowed, Typo(Path(name).stem, tuple(options)), location)

    def shadowing(self, path: str) -> list[Problem]:
        """Problems of a user's file that has the name of a shipped one, but another content."""
        if self.user_folder is None:
            return []
        problems = []
        for folder in self._paths:
            file = self.user_folder / folder / f"{path}.yaml"
            shipped = SHIPPED / folder / f"{path}.yaml"
            if shipped.is_file() and file.exists() and _differs(file, shipped):
                allowed = "rename it, or make it identical to the shipped file"
                location = self.show(file)
                problems.append(
                    Problem(f"{path}.yaml", "shadows a shipped file", allowed, place=location)
                )
        return problems

    @property
    def ignored(self) -> str | None:
        """The user's ``conf/config.yaml``, if it isn't ours. Nothing reads it: another program may
        own it."""
        if self.user_folder is None:
            return None
        file = self.user_folder / f"{CONFIG}.yaml"
        if not file.is_file():
            return None
        is_ours = self.task_path == Path() and not _differs(file, SHIPPED / file.name)
        return None if is_ours else self.show(file)


def _is_misnamed(file: Path) -> bool:
    return file.suffix.lower() in (".yml", ".yaml") and file.suffix != ".yaml"


def _differs(file: Path, shipped: Path) -> bool:
    return not file.is_file() or file.read_bytes() != shipped.read_bytes()


ABOUT_ALL_GROUPS = ("row", "scale")
"""Groups whose files set keys of all groups. Without the header, Hydra reads them as keys of that
group."""
HEADER = re.compile(r"([ \t]*(#.*)?\n)*?[ \t]*#[ \t]*@package[ \t]+(?P<package>\S+)")
"""The package in the first comments; a license may come before it."""
MISREAD = re.compile(r"[-+]?0[\d_]+$|.*:")
"""Numbers that YAML 1.1 reads as octal or as base 60."""
MISSING = "???"
"""OmegaConf's mark for a value that you must set."""
BARE_MISSING = re.compile(r"(?<=[\s:,\[{])\?\?\?(?=\s*([,}\]#]|$))", re.MULTILINE)
"""The same without quotes, which YAML does not read within braces."""
HOW_TO_GIVE = f"give it a value: {MISSING} marks a missing one"
MERGE_TAG = "tag:yaml.org,2002:merge"
NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


@dataclass(frozen=True)
class FileKey:
    """A dotted key that a file sets: its line, counted from 1, and its value."""

    key: str
    line: int
    value: yaml.Node


def file_problems(path: Path, file: str, group: str, schema: Schema) -> list[Problem]:
    """The problems of a file with an option of ``group``, which is "" for base.

    ``file`` is the path for messages. Raises RefusedError if Hydra cannot read the file, or reads
    other values than it seems to hold.
    """
    about_all = group in ("", *ABOUT_ALL_GROUPS)
    try:
        text = path.read_text("utf-8-sig")
        root = _root_node(text)
        if not isinstance(root, yaml.MappingNode) or not root.value:
            raise ValueError("it has no keys")
        keys = list(_keys(root, "" if about_all else group))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        reason, line = reason_of(error)
        fault = f"is not plain YAML: {reason}"
        allowed = "must contain groups of keys, in UTF-8"
        location = f"{file}{line}"
        raise refusal(path.stem, fault, allowed, place=location) from None
    misread = [*_misread_numbers(keys, file), *_missing_values(keys, file)]
    if group in ABOUT_ALL_GROUPS and not HEADER.match(text):
        allowed = 'must begin with "# @package _global_"'
        location = f"{file}:1"
        misread.append(Problem(path.stem, 'lacks "# @package _global_"', allowed, place=location))
    problems: list[Problem] = []
    if about_all:
        problems += _unknown_groups(root, group, file, schema)
        problems += _set_seed(keys, group, file, schema)
    if misread:
        raise RefusedError([*misread, *problems])
    return problems


def _root_node(text: str) -> yaml.Node | None:
    """The root of the file's YAML. ``???`` counts as text, also in braces. Raises YAMLError."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return yaml.compose(BARE_MISSING.sub(f'"{MISSING}"', text), Loader=yaml.SafeLoader)


def reason_of(error: Exception) -> tuple[str, str]:
    """Why a file cannot be read, and ``:line``; "" if the line is unknown."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
        return "it is not UTF-8 text", f":{line}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply", ""
    mark = getattr(error, "problem_mark", None)
    lines = str(error).strip().splitlines()
    reason = getattr(error, "problem", None) or next(iter(lines), "it isn't a configuration")
    return reason, f":{mark.line + 1}" if mark else ""


def lines_of(path: Path) -> dict[str, int]:
    """The first line, counted from 1, on which a file sets each dotted key."""
    root = yaml.compose(path.read_text("utf-8-sig"), Loader=yaml.SafeLoader)
    lines: dict[str, int] = {}
    for file_key in _keys(root):
        lines.setdefault(file_key.key, file_key.line)
    return lines


def line_of_default(path: Path, name: str) -> int | None:
    """The line of a file's defaults list that names this option; None if none does."""
    root = yaml.compose(path.read_text("utf-8-sig"), Loader=yaml.SafeLoader)
    for file_key in _keys(root):
        is_default = file_key.key.split(".")[0] == "defaults"
        if is_default and re.split(r"[/@]", str(file_key.value.value))[-1] == name:
            return file_key.line
    return None


def _keys(node: yaml.Node | None, key: str = "") -> Iterator[FileKey]:
    """Each dotted key below a node. The items of a list have the key of the list, and so have
    those of a mapping behind ``<<``."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            is_merge = name.tag == MERGE_TAG
            inner_key = key if is_merge else f"{key}.{name.value}".lstrip(".")
            if not is_merge:
                yield FileKey(inner_key, name.start_mark.line + 1, value)
            yield from _keys(value, inner_key)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield FileKey(key, item.start_mark.line + 1, item)
            yield from _keys(item, key)


def _misread_numbers(keys: Iterable[FileKey], file: str) -> Iterator[Problem]:
    """The problems of numbers that YAML reads in octal or in base 60."""
    for file_key in keys:
        if _is_misread(file_key.value):
            text = file_key.value.value
            number = yaml.safe_load(text)
            fault = f"is {text}, which YAML reads as {number}"
            allowed = f"write {number}, or put quotes around it to make it text"
            yield Problem(file_key.key, fault, allowed, place=f"{file}:{file_key.line}")


def _is_misread(node: yaml.Node) -> bool:
    is_plain = getattr(node, "style", "") is None
    return node.tag in NUMBER_TAGS and is_plain and bool(MISREAD.match(node.value))


def _missing_values(keys: Iterable[FileKey], file: str) -> Iterator[Problem]:
    """The problems of values that are yet to be set."""
    for file_key in keys:
        if file_key.value.value == MISSING:
            location = f"{file}:{file_key.line}"
            yield Problem(file_key.key, f"is {MISSING}", HOW_TO_GIVE, place=location)


def _unknown_groups(
    root: yaml.MappingNode, group: str, file: str, schema: Schema
) -> Iterator[Problem]:
    """The problems of groups that the file of a row, a scale or base may not set."""
    groups = (group, *schema.groups) if group else schema.groups
    owner = _owner(group)
    for node, _ in root.value:
        name = node.value
        if name in (*groups, "defaults"):
            continue
        allowed = f"{owner} sets only {', '.join(groups)}"
        location = f"{file}:{node.start_mark.line + 1}"
        if name in (*PLATFORM, "task", "hydra"):
            yield Problem(name, f"is set by {owner}", allowed, place=location)
        else:
            yield Problem(name, UNKNOWN_KEY, allowed, Typo(name, groups), location)


def _set_seed(keys: Iterable[FileKey], group: str, file: str, schema: Schema) -> Iterator[Problem]:
    """The problem of a row or a scale that sets the seed."""
    if not group or schema.seed is None:
        return
    line = next((file_key.line for file_key in keys if file_key.key == schema.seed), None)
    if line:
        allowed = "set the seeds of all rows with sweep.seeds=[1,2,3]"
        yield Problem(schema.seed, f"is set by {_owner(group)}", allowed, place=f"{file}:{line}")


def _owner(group: str) -> str:
    return f"a {group}" if group else BASE
