"""The folder of a study's code as trials use it: Python files as recorded, and links to all else of today's folders.

Processes of trials run in there: their current folder and the path of their imports lead to it instead of to the user's
folders, and so do those of the processes that they start. What a task writes beside its files shows in the user's
folder, and is moved there once no trial runs.
"""

import atexit
import importlib
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from sweeps.config.tasks import ENTERED, forget_tasks
from sweeps.processes.storage import PREFIX
from sweeps.processes.times import SHARED_EVERY_S
from sweeps.worker.environment import variables
from tracking.attempts import own_process, runners
from tracking.code import Code, code_folders, code_place, set_aside, split_name, write_code
from tracking.files import DamagedFileError
from tracking.provenance import OUR_CODE, ROOT
from tracking.study import STUDY_FILE

INSTALLS = ("site-packages", "dist-packages")
"""Folders below the user's that hold installed packages."""
PYTHON = {
    os.path.realpath(place)
    for place in (sys.prefix, sys.base_prefix, *map(sysconfig.get_path, ("stdlib", "platstdlib")))
}
"""Folders of Python itself, which may lie below the user's."""
MAPS = ("__editable__", "_editable_impl_")
"""How modules begin whose finders lead a name to an editable install."""
NOT_LINKED = ("__pycache__", ".git")
"""A link to the second would make git take the folder for the user's."""
WORD = re.compile(r"[\w.-]+")
SETTINGS = (".yaml", ".yml", ".toml", ".json", ".cfg", ".ini", ".sh")
"""Files that may name modules and folders, besides Python's."""
LARGEST = 1 << 16  # bytes of such a file; longer ones hold data
SEARCHED = "PYTHONPATH"


@dataclass(frozen=True, eq=False)
class CodeFolder:
    """One version of the user's code, at ``place`` in a study. ``study`` is never linked into itself."""

    code: Code
    place: Path
    study: Path

    @cached_property
    def folders(self) -> dict[str, Path]:
        """Where the files of each root lie."""
        return code_folders(self.place)

    @property
    def task(self) -> Path:
        """The folder that stands for the task's."""
        return self.folders[""]

    def link(self) -> None:
        """Link what is in today's folders and no recorded file. Raises OSError."""
        for today, here in self._pairs:
            for name in self._unrecorded(today, here) if here.is_dir() else ():
                _make_link(here / name, str(today / name))
        task = Path(self.code.roots[""])
        for today, here in zip(task.parents, self.task.parents, strict=False):
            if here == self.place or not here.is_dir():
                break
            for name in self._named(today):
                _make_link(here / name, str(today / name))

    def is_mixed(self) -> bool:
        """Whether something else lies where a link must be, as in a copy of a study."""
        for today, here in self._pairs:
            for name in self._unrecorded(today, here):
                if (here / name).exists() and not (here / name).is_symlink():
                    return True
        return False

    def show(self) -> None:
        """Link what a task has written beside its files into the user's folder."""
        for path, today in self._written():
            if not os.path.lexists(today):
                with suppress(OSError):  # of a user's folder that is read-only
                    today.symlink_to(path)

    def give_back(self) -> None:
        """Move what a task has written beside its files to the user's folder, and link it."""
        for path, today in self._written():
            if today.is_symlink() and today.readlink() == path:  # it was shown
                today.unlink()
            if _is_newer(path, today):
                with suppress(OSError):  # of a user's folder that is read-only
                    shutil.move(path, today)
                    path.symlink_to(today)

    def _written(self) -> Iterator[tuple[Path, Path]]:
        """What a task has written here, but for modules, and where it belongs."""
        for today, here in self._pairs:
            for path in [*here.iterdir()] if here.is_dir() else ():
                written = not (path.is_symlink() or path.name in NOT_LINKED or self._has(path))
                if written and path.suffix != ".py":
                    yield path, today / path.name

    def moved(self, place: str) -> str | None:
        """The folder in here that stands for this one of the user's; None for one of another's."""
        real = Path(os.path.realpath(place or os.curdir))
        for name, root in self.code.roots.items():
            above = Path(os.path.realpath(root))
            if real.is_relative_to(above) and _is_own(real, above):
                here = self.folders[name] / real.relative_to(above)
                return str(here) if here.is_dir() else None
        return None

    def search_path(self, before: list[str]) -> list[str]:
        """``sys.path`` with folders in here in place of the user's."""
        places = [str(self.task), *self.installs]
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
        installed = [str(place) for name, place in self.folders.items() if name]
        places = [place for place in map(self.moved, [*sys.path, *self._mapped()]) if place]
        return [place for place in dict.fromkeys(places) if place.startswith(tuple(installed))]

    def _mapped(self) -> Iterator[str]:
        """The folders of packages to which finders of editable installs lead."""
        finders = [finder for finder in sys.meta_path if _module_of(finder).startswith(MAPS)]
        names = {part for name in self.code.files for part in name.removesuffix(".py").split("/")}
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
        if not file or compiled or name == "__main__" or file.startswith(f"{self.place}{os.sep}"):
            return False
        if any(Path(file).is_relative_to(ROOT / ours) for ours in OUR_CODE):
            return False
        return file.startswith(tuple(_PLACES)) or self._is_users(file)

    def _is_users(self, file: str) -> bool:
        real = Path(os.path.realpath(file))
        roots = [Path(os.path.realpath(root)) for root in self.code.roots.values()]
        inside = any(real.is_relative_to(root) and _is_own(real, root) for root in roots)
        return inside or real in self._behind_links

    @cached_property
    def _behind_links(self) -> set[Path]:
        return {Path(os.path.realpath(self.code.place(name))) for name in self.code.files}

    @cached_property
    def _pairs(self) -> list[tuple[Path, Path]]:
        """Each of today's folders that holds recorded files, and the one in here."""
        pairs = dict[Path, Path]()
        for name in ("", *self.code.files):
            root, inner = split_name(name)
            if root not in self.code.roots:
                continue
            for folder in (Path(inner), *Path(inner).parents)[1 if inner else 0 :]:
                today = Path(self.code.roots[root], folder)
                if today.is_dir():
                    pairs[today] = self.folders[root] / folder
        return list(pairs.items())

    def _has(self, path: Path) -> bool:
        """Whether this is a recorded file, or a folder with some."""
        return path in self._recorded

    @cached_property
    def _recorded(self) -> set[Path]:
        recorded = set[Path]()
        for name in self.code.files:
            root, inner = split_name(name)
            path = self.folders.get(root, self.place / root) / inner
            recorded |= {path, *path.parents}
        return recorded

    def _unrecorded(self, today: Path, here: Path) -> Iterator[str]:
        """The names of a folder's entries that are neither recorded nor hold a study."""
        for entry in os.scandir(today):
            recorded = entry.name in NOT_LINKED or self._has(here / entry.name)
            if not recorded and not (entry.is_dir() and self._holds_study(Path(entry.path))):
                yield entry.name

    def _named(self, above: Path) -> Iterator[str]:
        """Of a folder above the task's, the entries that its files name."""
        with suppress(OSError):  # a folder that cannot be listed
            for name in self._words & {path.name for path in above.iterdir()}:
                if name not in NOT_LINKED and not self._holds_study(above / name):
                    yield name

    @cached_property
    def _words(self) -> set[str]:
        """All words of the code, and of the settings beside it."""
        texts = [content.decode("utf-8", "replace") for content in self.code.files.values()]
        texts += settings_texts(Path(self.code.roots[""]))
        return {word for text in texts for word in WORD.findall(text)}

    def _holds_study(self, path: Path) -> bool:
        """Whether the study lies there, or is another one: who copies with links would never end."""
        holds = os.path.realpath(self.study).startswith(os.path.join(os.path.realpath(path), ""))  # noqa: PTH118
        return holds or (path / STUDY_FILE).exists()


def settings_texts(folder: Path) -> list[str]:
    """The texts of small files of settings in the task's folder and in its ``conf/``."""
    texts = list[str]()
    for path in (*folder.glob("*"), *(folder / "conf").rglob("*")):
        with suppress(OSError):
            if path.suffix in SETTINGS and path.is_file() and path.stat().st_size <= LARGEST:
                texts.append(path.read_text("utf-8", "replace"))
    return texts


environment: dict[str, str | None] = {}
"""The variables that the code names, as this process had them when it began to run with it."""
_PLACES: set[str] = set()
"""All folders of code in which this process has run."""


def enter_code(code: Code | None, study: Path, lasting: bool = True) -> Path | None:
    """From now on this process runs with this version: returns the folder that stands for the task's.

    It forgets modules of the user's that it has from elsewhere. A process that another study has used must not go on
    with the modules of that one. Unless ``lasting``, the folder is a temporary one. Raises OSError.
    """
    environment.clear()
    environment.update(variables(code))
    if code is None:
        return None
    folder = _made(code, study, lasting)
    sys.path[:] = folder.search_path(sys.path)
    _set_searched(folder.searched_by_children(os.environ.get(SEARCHED, "")))
    os.chdir(folder.task)
    for name in [name for name, module in list(sys.modules.items()) if folder.is_elsewhere(name, module)]:
        del sys.modules[name]
    _PLACES.add(f"{folder.place}{os.sep}")
    forget_tasks()
    _forget_finders()
    return folder.task


@contextmanager
def running_code(code: Code | None, study: Path, lasting: bool = True) -> Iterator[Path | None]:
    """The same for a while. What was written beside the task's files goes back at the end."""
    modules, searched, entered = dict(sys.modules), list(sys.path), dict(ENTERED)
    here, variable = Path.cwd(), os.environ.get(SEARCHED, "")
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
            give_back(code, study)


def ready_code(code: Code | None, study: Path) -> None:
    """Make the study's folder of this version fit for trials, unless another process runs trials in it already."""
    if code is None:
        return
    folder = CodeFolder(code, write_code(study, code), study)
    if _others_run(study):
        return
    folder.give_back()  # what a sweep that was killed has left
    if folder.is_mixed():
        set_aside(folder.place)
        write_code(study, code)


@contextmanager
def shared_files(code: Code | None, study: Path) -> Iterator[None]:
    """While trials run: what they write beside their files shows in the user's folder, and what comes there in theirs.

    At the end it is moved there.
    """
    if code is None:
        yield
        return
    ended = threading.Event()
    folder = CodeFolder(code, code_place(study, code.digest), study)
    sharing = threading.Thread(target=_share, args=(folder, ended), name="shared files", daemon=True)
    sharing.start()
    try:
        yield
    finally:
        ended.set()
        sharing.join()
        give_back(code, study)


def _share(folder: CodeFolder, ended: threading.Event) -> None:
    pause_s = SHARED_EVERY_S
    while not ended.wait(pause_s):
        began = time.monotonic()
        with suppress(OSError, DamagedFileError):  # storage that fails for a while, or a study that was removed
            folder.link()
            folder.show()
        pause_s = max(SHARED_EVERY_S, 20 * (time.monotonic() - began))


def give_back(code: Code | None, study: Path) -> None:
    """Move what trials wrote beside their files to the user's folder, unless another process still runs trials."""
    if code is None or _others_run(study):
        return
    for home in (study, _own_folder()):
        place = code_place(home, code.digest)
        if place.is_dir():
            CodeFolder(code, place, study).give_back()


def _others_run(study: Path) -> bool:
    own = own_process()
    return any(runner.process != own for runner in runners(study))


def _made(code: Code, study: Path, lasting: bool) -> CodeFolder:
    """In the study, or in a temporary folder of this process where the study cannot be reached or written to."""
    if lasting and (study / STUDY_FILE).exists():
        with suppress(OSError):
            folder = CodeFolder(code, write_code(study, code), study)
            folder.link()
            return folder
    folder = CodeFolder(code, write_code(_own_folder(), code), study)
    folder.link()
    return folder


@cache
def _own_folder() -> Path:
    """Removed at the end of this process, or by a later one if this one is killed."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{own_process().birth}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _make_link(path: Path, target: str) -> None:
    """Several processes may make the same one. What a task has written stays."""
    if path.is_symlink() and str(path.readlink()) == target:
        return
    if path.exists() and not path.is_symlink():
        return
    temporary = path.with_name(f".{uuid.uuid4().hex}.link")
    temporary.symlink_to(target)
    temporary.replace(path)


def _is_newer(path: Path, today: Path) -> bool:
    """Whether a written file may replace the user's; a folder may not."""
    if not os.path.lexists(today):
        return True
    both_files = path.is_file() and today.is_file()
    return both_files and path.stat().st_mtime_ns > today.stat().st_mtime_ns


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


def _forget_finders() -> None:
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def _module_of(finder: Any) -> str:
    return str(getattr(finder, "__module__", "") if isinstance(finder, type) else type(finder).__module__)
