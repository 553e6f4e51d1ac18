"""What a process imports once it runs with a study's code: modules from the study's folder in place of the user's.

No hook: ``sys.path``, ``PYTHONPATH`` and the current folder lead there, so processes that it starts import the same.
"""

import importlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from sweeps.config.tasks import ENTERED, forget_tasks
from sweeps.worker.code_folder import CodeFolder, made_folder, remove_outdated_links
from sweeps.worker.environment import variables
from tracking.code import Code
from tracking.provenance import OUR_CODE, ROOT

INSTALLS = ("site-packages", "dist-packages")
"""Folders below the user's that hold installed packages."""
PYTHON = {
    os.path.realpath(place)
    for place in (sys.prefix, sys.base_prefix, *map(sysconfig.get_path, ("stdlib", "platstdlib")))
}
"""Folders of Python itself, which may lie below the user's."""
MAPS = ("__editable__", "_editable_impl_")
"""How modules begin whose finders lead a name to an editable install."""
SEARCHED = "PYTHONPATH"
environment: dict[str, str | None] = {}
"""The variables that the code names, as this process had them when it began to run with it."""
_PLACES: set[str] = set()
"""All folders of code in which this process has run."""
_USERS: dict[str, str] = {}
"""The user's folder by the one that stands for it."""


@dataclass(frozen=True, eq=False)
class Imports:
    """Which folders of the user's have another one in the study."""

    folder: CodeFolder

    def moved(self, place: str) -> str | None:
        """The folder in here that stands for this one of the user's; None for one of another's."""
        real = Path(os.path.realpath(place or os.curdir))
        for name, root in self.folder.code.roots.items():
            above = Path(os.path.realpath(root))
            if real.is_relative_to(above) and _is_own(real, above):
                here = self.folder.folders[name] / real.relative_to(above)
                return str(here) if here.is_dir() else None
        return None

    def search_path(self, before: list[str]) -> list[str]:
        """``sys.path`` with folders in here in place of the user's."""
        places = [str(self.folder.task), *self.installs]
        for place in before:
            places.append(self.moved(place) or place)
            if os.path.realpath(place) == str(ROOT):  # of allelse itself, if a task lies in its checkout
                places.append(place)
        return list(dict.fromkeys(places))

    def searched_by_children(self, variable: str) -> str:
        """``PYTHONPATH`` with folders in here in place of the user's, and those of editable installs."""
        before = [place for place in variable.split(os.pathsep) if place]
        places = [*self.installs, *(self.moved(place) or place for place in before)]
        return os.pathsep.join(dict.fromkeys(places))

    @cached_property
    def installs(self) -> list[str]:
        """The folders in here from which editable installs are imported."""
        installed = [str(place) for name, place in self.folder.folders.items() if name]
        places = [place for place in map(self.moved, [*sys.path, *self._mapped()]) if place]
        return [place for place in dict.fromkeys(places) if place.startswith(tuple(installed))]

    def _mapped(self) -> Iterator[str]:
        """The folders of packages to which finders of editable installs lead."""
        finders = [finder for finder in sys.meta_path if _module_of(finder).startswith(MAPS)]
        names = {part for name in self.folder.code.files for part in name.removesuffix(".py").split("/")}
        for finder in finders:
            for name in sorted(names):
                spec = finder.find_spec(name, None)
                if spec is not None and spec.origin:
                    file = Path(spec.origin)
                    yield str(file.parents[1] if file.stem == "__init__" else file.parent)

    def is_elsewhere(self, name: str, module: ModuleType) -> bool:
        """Whether the module is the user's, but not from here. A compiled one cannot be imported twice."""
        file = str(getattr(module, "__file__", None) or "")
        compiled = isinstance(getattr(module, "__loader__", None), ExtensionFileLoader)
        if not file or compiled or name == "__main__" or file.startswith(f"{self.folder.place}{os.sep}"):
            return False
        if any(Path(file).is_relative_to(ROOT / ours) for ours in OUR_CODE):
            return False
        return file.startswith(tuple(_PLACES)) or self._is_users(file)

    def _is_users(self, file: str) -> bool:
        real = Path(os.path.realpath(file))
        roots = [Path(os.path.realpath(root)) for root in self.folder.code.roots.values()]
        inside = any(real.is_relative_to(root) and _is_own(real, root) for root in roots)
        return inside or real in self._behind_links

    @cached_property
    def _behind_links(self) -> set[Path]:
        return {Path(os.path.realpath(self.folder.code.place(name))) for name in self.folder.code.files}


def enter_code(code: Code | None, study: Path, lasting: bool = True) -> Path | None:
    """From now on this process runs with this version: returns the folder that stands for the task's.

    It forgets modules of the user's that it has from elsewhere. A process that another study has used must not go on
    with the modules of that one. Unless ``lasting``, the folder is a temporary one. Raises OSError.
    """
    environment.clear()
    environment.update(variables(code))
    if code is None:
        return None
    folder = made_folder(code, study, lasting)
    imports = Imports(folder)
    of_children = imports.searched_by_children(os.environ.get(SEARCHED, ""))
    sys.path[:] = imports.search_path(sys.path)
    _set_searched(of_children)
    os.chdir(folder.task)
    for name, module in list(sys.modules.items()):
        if imports.is_elsewhere(name, module):
            del sys.modules[name]
    _PLACES.add(f"{folder.place}{os.sep}")
    for name, place in folder.folders.items():
        if name in code.roots:
            _USERS[f"{place}{os.sep}"] = f"{code.roots[name]}{os.sep}"
    forget_tasks()
    _forget_finders()
    return folder.task


def in_users_folders(text: str) -> str:
    """The text of an error with the paths of the user's files in place of the study's: those he can edit."""
    for place, users in _USERS.items():
        text = text.replace(place, users)
    return text


@contextmanager
def running_code(code: Code | None, study: Path, lasting: bool = True) -> Iterator[Path | None]:
    """The same for a while."""
    modules = dict(sys.modules)
    searched = list(sys.path)
    entered = dict(ENTERED)
    here = Path.cwd()
    variable = os.environ.get(SEARCHED, "")
    task = enter_code(code, study, lasting)
    try:
        yield task
    finally:
        if code is not None:
            _set_searched(variable)
            sys.path[:] = searched
            os.chdir(here)
            _restore_modules(modules)
            ENTERED.clear()
            ENTERED.update(entered)
            forget_tasks()
            _forget_finders()
            remove_outdated_links(study)


def _restore_modules(before: Mapping[str, ModuleType]) -> None:
    """Forget modules of the code, and bring back those that were there before."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(tuple(_PLACES)):
            del sys.modules[name]
    sys.modules.update(before)


def _set_searched(variable: str) -> None:
    os.environ[SEARCHED] = variable
    if not variable:
        del os.environ[SEARCHED]


def _is_own(place: Path, root: Path) -> bool:
    """Whether no folder between the two is hidden, or holds Python or installed packages."""
    between = [folder for folder in (place, *place.parents) if folder != root and folder.is_relative_to(root)]
    return not any(_is_foreign(folder) for folder in between)


def _is_foreign(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in INSTALLS or holds_python(folder)


@cache
def holds_python(folder: Path) -> bool:
    """Whether this is a Python installation or environment, or its standard library."""
    return (folder / "pyvenv.cfg").exists() or (folder / "conda-meta").exists() or os.path.realpath(folder) in PYTHON


def _forget_finders() -> None:
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def _module_of(finder: Any) -> str:
    return str(getattr(finder, "__module__", "") if isinstance(finder, type) else type(finder).__module__)
