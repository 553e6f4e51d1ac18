"""The user's code: which Python files belong to a study.

They lie in the task's folder and in editable installs. Where git tracks some, these count, and
others only if the task names them; elsewhere all count. Trials run in the study's folder of them
(``sweeps.worker.user_code.folder``), so an edit never reaches a trial by itself.
"""

import ast
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sweeps.command_task.code import command_files
from sweeps.config.tasks import OURS, TaskSource, reference_of
from sweeps.worker.user_code.environment import last_name
from sweeps.worker.user_code.folder import settings_texts
from sweeps.worker.user_code.imports import INSTALLS, holds_python
from tracking.code import INSTALLED, Code
from tracking.provenance import DISTRIBUTION, OUR_CODE, tracked_files

DEPTH = 3
"""How many nested folders without a Python file may still lead to a package. What lies deeper is
data."""
MOST_ENTRIES = 5000
"""A folder with more entries, and no Python file among the first ones, holds data."""
PATHS = re.compile(r"[\w./*-]+")
"""A text that may name modules or files, or begin the name of one; in a file of settings each such
word."""
EVERY = "*"
"""Stands for all modules, where any may be imported."""
IMPORTING = ("import_module", "__import__", "instantiate", "get_class", "get_method", "locate")
"""Functions of importlib, Hydra and pydoc that import what their argument names."""
LISTING = ("iter_modules", "walk_packages")
"""Functions that name all modules of a package."""
NO_CODE = (*INSTALLS, "__pycache__")


def user_code(source: TaskSource) -> Code | None:
    """The code that belongs to a user's task, as it is today; None for our own task."""
    if source.name in OURS:
        return None
    here = Path(source.folder)
    installs = {f"{INSTALLED}{name}": root for name, root in _editable_folders(here)}
    contents = _contents(here)
    for name, root in installs.items():
        for path, content in _contents(root, without=here).items():
            contents[f"{name}/{path}"] = content
    names = _reached(source, contents, settings_texts(here))
    used_roots = {_root_of(name) for name in names}  # an installed task may use none of this folder
    for root_name in used_roots:
        names |= _tracked(root_name, installs.get(root_name, here), contents)
    files = {name: content for name, content in contents.items() if name in names}
    files |= command_files(source.name, here)
    roots = {"": source.folder}
    for name, root in installs.items():
        if name in used_roots:
            roots[name] = str(root)
    return Code(files, roots)


def content_of(path: Path) -> bytes | None:
    """The file's content; None if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _tracked(root: str, folder: Path, files: Mapping[str, bytes]) -> set[str]:
    """The files of the root that git tracks; all of them where it tracks none."""
    root_files = {name for name in files if _root_of(name) == root}
    tracked = {f"{root}/{path}" if root else path for path in tracked_files(folder, "*.py")}
    tracked_files_of_root = root_files & tracked
    return tracked_files_of_root if tracked_files_of_root else root_files


def _root_of(name: str) -> str:
    return name.partition("/")[0] if name.startswith(INSTALLED) else ""


def _reached(source: TaskSource, files: Mapping[str, bytes], settings: list[str]) -> set[str]:
    """The files that the task names, directly or through other files: by an import anywhere, or by
    a text such as "nets.small" or "plugins/*.py", also one in a file of settings.

    A package that is named counts as a whole.
    """
    names = {reference_of(source.name).partition(":")[0].partition(".")[0]}
    for text in settings:
        for word in PATHS.findall(text):
            names |= set(_names_in_text(word)) - {EVERY}
    reached = set[str]()
    new_files = _files_with(names, files)
    while new_files:
        reached |= new_files
        for name in new_files:
            names |= set(_names_in(name, files[name]))
        new_files = _files_with(names, files) - reached
    return reached


def _files_with(names: set[str], files: Mapping[str, bytes]) -> set[str]:
    """The files that an import of one of the names may read."""
    if EVERY in names:
        return set(files)
    return {file for file in files if not names.isdisjoint(_parts(file))}


def _parts(name: str) -> set[str]:
    """What an import may call the file, or a package that holds it."""
    *folders, file = name.split("/")
    packages = {folder for folder in folders if not folder.startswith(INSTALLED)}
    return {*packages, file.removesuffix(".py")} - {"__init__"}


def _names_in(name: str, content: bytes) -> Iterator[str]:
    """The first part of each module, and the parts of each path, that the text of a file may
    name."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # it cannot be imported either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _names_in_import(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _names_in_text(node.value)
        elif isinstance(node, ast.Call) and last_name(node.func) in IMPORTING:
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            for argument in arguments:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value).lstrip(".").partition(".")[0]
        elif isinstance(node, ast.Call) and last_name(node.func) in LISTING:
            folders = name.split("/")[:-1]
            yield from folders if folders else [EVERY]


def _names_in_import(node: ast.ImportFrom) -> Iterator[str]:
    if node.module:
        yield node.module.partition(".")[0]
    if node.level:
        yield from (alias.name for alias in node.names)


def _names_in_text(text: str) -> Iterator[str]:
    """The names of folders and modules in a text such as "nets/small.py" or "nets.small"; ``EVERY``
    for "*.py"."""
    if PATHS.fullmatch(text):
        names = [part for part in re.split(r"[./*]+", text.removesuffix(".py")) if part]
        if text.endswith(".py") and not names:
            names = [EVERY]
        yield from names


def _contents(root: Path, without: Path | None = None) -> dict[str, bytes]:
    """The Python files below the folder, by their path there, but for those in ``without``."""
    contents = {}
    for path in _python_files(root, 0, (os.path.realpath(root),)):
        if without is None or not path.is_relative_to(without):
            contents[path.relative_to(root).as_posix()] = path.read_bytes()
    return contents


def _python_files(folder: Path, n_empty: int, real: tuple[str, ...]) -> Iterator[Path]:
    """All Python files below the folder that may be imported.

    ``n_empty``: how many folders above it, in a row, have no Python file. ``real``: where the
    folder and the links above it lead, so that links cannot form a circle.
    """
    files, folders = _files_and_folders(folder)
    yield from files
    n_empty = 0 if files else n_empty + 1
    for inner in folders if n_empty < DEPTH else ():
        if _is_ours(inner) or holds_python(inner):
            continue
        if not inner.is_symlink():
            yield from _python_files(inner, n_empty, real)
        elif not _is_circle(inner, real):  # a link to a folder without Python files leads to data
            yield from _python_files(inner, DEPTH - 1, (*real, os.path.realpath(inner)))


def _files_and_folders(folder: Path) -> tuple[list[Path], list[Path]]:
    """The Python files of the folder, and the folders that may hold some; none in a folder of
    data, or in one that cannot be read."""
    files: list[Path] = []
    folders: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count >= MOST_ENTRIES and not files:
                    return [], []
                if entry.name.endswith(".py") and entry.is_file():
                    files.append(Path(entry.path))
                elif _may_hold_code(entry):
                    folders.append(Path(entry.path))
    except OSError:  # nothing can be imported from it
        return [], []
    return files, folders


def _may_hold_code(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.name not in NO_CODE and entry.is_dir()


def _is_circle(link: Path, real: tuple[str, ...]) -> bool:
    target = link.resolve()
    return str(target) in real or link.parent.resolve().is_relative_to(target)


def _is_ours(folder: Path) -> bool:
    if folder.name not in OUR_CODE:
        return False
    package_path = getattr(sys.modules.get(folder.name), "__path__", [None])
    return bool(package_path[0] == str(folder))


def _editable_folders(here: Path) -> Iterator[tuple[str, Path]]:
    """Name and folder of each editable install, but for ours and those in the task's folder."""
    for distribution in distributions():
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        is_editable = origin.get("dir_info", {}).get("editable")
        if is_editable and distribution.name != DISTRIBUTION:
            root = Path(unquote(urlsplit(origin["url"]).path))
            if not root.is_relative_to(here):
                yield distribution.name, root
