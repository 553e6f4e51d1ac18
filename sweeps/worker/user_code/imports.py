"""Makes a process import the study's copy of the user's code instead of the user's own files.

There is no import hook: ``sys.path``, ``PYTHONPATH`` and the current folder point there, so child
processes import the same modules.
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
from sweeps.worker.user_code.environment import variables
from sweeps.worker.user_code.folder import CodeFolder, made_folder, remove_outdated_links
from tracking.code import Code
from tracking.provenance import OUR_CODE, ROOT

INSTALLS = ("site-packages", "dist-packages")
"""Folders below the user's that hold installed packages."""
PYTHON = {
    os.path.realpath(folder)
    for folder in (sys.prefix, sys.base_prefix, *map(sysconfig.get_path, ("stdlib", "platstdlib")))
}
"""Folders of Python itself, which may be inside the user's."""
MAPS = ("__editable__", "_editable_impl_")
"""How the names of modules begin that find editable installs."""
SEARCHED = "PYTHONPATH"
environment: dict[str, str | None] = {}
"""The variables that the code names, as this process had them when it began to run with it."""
_PLACES: set[str] = set()
"""All folders of code in which this process has run."""
_USERS: dict[str, str] = {}
"""The user's folder, by the study's folder that replaces it."""


@dataclass(frozen=True, eq=False)
class Imports:
    """Maps the user's folders to the folders in the study that replace them."""

    folder: CodeFolder

    def moved(self, folder: str) -> str | None:
        """The folder in the study that replaces this user folder; None if there is none."""
        real = Path(os.path.realpath(folder or os.curdir))
        for name, root in self.folder.code.roots.items():
            above = Path(os.path.realpath(root))
            if real.is_relative_to(above) and _is_own(real, above):
                study_folder = self.folder.folders[name] / real.relative_to(above)
                return str(study_folder) if study_folder.is_dir() else None
        return None

    def search_path(self, search_path: list[str]) -> list[str]:
        """``sys.path`` with folders in here in place of the user's."""
        folders = [str(self.folder.task), *self.installs]
        for folder in search_path:
            folders.append(self.moved(folder) or folder)
            if os.path.realpath(folder) == str(
                ROOT
            ):  # of allelse itself, if a task is in its checkout
                folders.append(folder)
        return list(dict.fromkeys(folders))

    def searched_by_children(self, variable: str) -> str:
        """``PYTHONPATH`` with folders in here in place of the user's, and those of editable
        installs."""
        searched = [folder for folder in variable.split(os.pathsep) if folder]
        folders = [*self.installs, *(self.moved(folder) or folder for folder in searched)]
        return os.pathsep.join(dict.fromkeys(folders))

    @cached_property
    def installs(self) -> list[str]:
        """The folders in here from which editable installs are imported."""
        roots = [str(folder) for name, folder in self.folder.folders.items() if name]
        folders = [folder for folder in map(self.moved, [*sys.path, *self._mapped()]) if folder]
        return [folder for folder in dict.fromkeys(folders) if folder.startswith(tuple(roots))]

    def _mapped(self) -> Iterator[str]:
        """The folders of packages to which finders of editable installs lead."""
        finders = [finder for finder in sys.meta_path if _module_of(finder).startswith(MAPS)]
        names = {
            part for name in self.folder.code.files for part in name.removesuffix(".py").split("/")
        }
        for finder in finders:
            for name in sorted(names):
                spec = finder.find_spec(name, None)
                if spec is not None and spec.origin:
                    file = Path(spec.origin)
                    yield str(file.parents[1] if file.stem == "__init__" else file.parent)

    def is_elsewhere(self, name: str, module: ModuleType) -> bool:
        """Whether the module is the user's, but not from here. A compiled one cannot be imported
        twice."""
        file = str(getattr(module, "__file__", None) or "")
        compiled = isinstance(getattr(module, "__loader__", None), ExtensionFileLoader)
        if (
            not file
            or compiled
            or name == "__main__"
            or file.startswith(f"{self.folder.path}{os.sep}")
        ):
            return False
        if any(Path(file).is_relative_to(ROOT / ours) for ours in OUR_CODE):
            return False
        return file.startswith(tuple(_PLACES)) or self._is_users(file)

    def _is_users(self, file: str) -> bool:
        real = Path(os.path.realpath(file))
        if real in self._behind_links:
            return True
        for root in self.folder.code.roots.values():
            real_root = Path(os.path.realpath(root))
            if real.is_relative_to(real_root) and _is_own(real, real_root):
                return True
        return False

    @cached_property
    def _behind_links(self) -> set[Path]:
        return {
            Path(os.path.realpath(self.folder.code.place(name))) for name in self.folder.code.files
        }


def enter_code(code: Code | None, study: Path, lasting: bool = True) -> Path | None:
    """Make this process run with this version of the code. Returns the folder that replaces the
    task's.

    Forgets the user's modules that were imported from elsewhere, since a process may have run
    another study before. Unless ``lasting``, the folder is a temporary one. Raises OSError.
    """
    environment.clear()
    environment.update(variables(code))
    if code is None:
        return None
    folder = made_folder(code, study, lasting)
    imports = Imports(folder)
    python_path = imports.searched_by_children(os.environ.get(SEARCHED, ""))
    sys.path[:] = imports.search_path(sys.path)
    _set_searched(python_path)
    os.chdir(folder.task)
    for name, module in list(sys.modules.items()):
        if imports.is_elsewhere(name, module):
            del sys.modules[name]
    _PLACES.add(f"{folder.path}{os.sep}")
    for name, study_folder in folder.folders.items():
        if name in code.roots:
            _USERS[f"{study_folder}{os.sep}"] = f"{code.roots[name]}{os.sep}"
    forget_tasks()
    _forget_finders()
    return folder.task


def in_users_folders(text: str) -> str:
    """The text of an error with the study's paths replaced by those of the user's files, which can
    be edited."""
    for study_folder, users_folder in _USERS.items():
        text = text.replace(study_folder, users_folder)
    return text


@contextmanager
def running_code(code: Code | None, study: Path, lasting: bool = True) -> Iterator[Path | None]:
    """Like ``enter_code``, but only until the context ends. Yields the folder of the task."""
    modules = dict(sys.modules)
    search_path = list(sys.path)
    entered = dict(ENTERED)
    current_folder = Path.cwd()
    variable = os.environ.get(SEARCHED, "")
    task = enter_code(code, study, lasting)
    try:
        yield task
    finally:
        if code is not None:
            _set_searched(variable)
            sys.path[:] = search_path
            os.chdir(current_folder)
            _restore_modules(modules)
            ENTERED.clear()
            ENTERED.update(entered)
            forget_tasks()
            _forget_finders()
            remove_outdated_links(study)


def _restore_modules(modules: Mapping[str, ModuleType]) -> None:
    """Forget the modules of the code, and bring back ``modules``, which were imported before."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(tuple(_PLACES)):
            del sys.modules[name]
    sys.modules.update(modules)


def _set_searched(variable: str) -> None:
    os.environ[SEARCHED] = variable
    if not variable:
        del os.environ[SEARCHED]


def _is_own(path: Path, root: Path) -> bool:
    """Whether no folder between the two is hidden, or holds Python or installed packages."""
    between = [
        inner for inner in (path, *path.parents) if inner != root and inner.is_relative_to(root)
    ]
    return not any(_is_foreign(inner) for inner in between)


def _is_foreign(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in INSTALLS or holds_python(folder)


@cache
def holds_python(folder: Path) -> bool:
    """Whether this is a Python installation or environment, or its standard library."""
    return (
        (folder / "pyvenv.cfg").exists()
        or (folder / "conda-meta").exists()
        or os.path.realpath(folder) in PYTHON
    )


def _forget_finders() -> None:
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def _module_of(finder: Any) -> str:
    return str(
        getattr(finder, "__module__", "") if isinstance(finder, type) else type(finder).__module__
    )
