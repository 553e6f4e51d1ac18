"""Imports the user's modules from the bytes that the study has recorded, at the start and inside functions alike.

Modules keep their ``__file__``, so data beside them is found. What the record lacks in these folders is not there: a
module that was added later is not imported, except for compiled ones.
"""

import importlib
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from sweeps.config.tasks import forget_tasks
from tracking.provenance import OUR_CODE, Code

INSTALLS = ("site-packages", "dist-packages")
"""Folders below the user's that hold installed packages."""
PYTHON = {
    os.path.realpath(place)
    for place in (sys.prefix, sys.base_prefix, *map(sysconfig.get_path, ("stdlib", "platstdlib")))
}
"""Folders of Python itself, which may lie below the user's."""
MAPS = ("__editable__", "_editable_impl_")
"""How modules begin whose finders lead a name to an editable install."""


class RecordedLoader(SourceFileLoader):
    """Of one module. Neither its file nor its bytecode on disk counts."""

    def __init__(self, fullname: str, path: str, content: bytes, digest: str) -> None:
        super().__init__(fullname, path)
        self.content, self.digest = content, digest

    def get_data(self, path: str) -> bytes:
        return self.content if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.content, self.path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        lines = (self.get_source(self.name) or "").splitlines(keepends=True)
        linecache.cache[self.path] = len(self.content), None, lines, self.path  # for tracebacks and compilers
        super().exec_module(module)


class _Finder:
    """Of one folder on the path, or of a package."""

    def __init__(self, place: str, known: "_Recorded") -> None:
        self.place, self.known = place, known
        self._compiled = FileFinder(place, (ExtensionFileLoader, EXTENSION_SUFFIXES))
        self._ours = FileFinder(place, (SourceFileLoader, SOURCE_SUFFIXES))  # a task may lie next to our own packages

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        package = os.path.join(self.place, fullname.rpartition(".")[2])  # noqa: PTH118 - as importlib joins them
        for path, inner in ((f"{package}{os.sep}__init__.py", [package]), (f"{package}.py", None)):
            if loader := self.known.loader(fullname, path):
                return spec_from_file_location(fullname, path, loader=loader, submodule_search_locations=inner)
        return (self._ours if fullname in OUR_CODE else self._compiled).find_spec(fullname, target)

    def invalidate_caches(self) -> None:
        self._compiled.invalidate_caches()
        self._ours.invalidate_caches()


class _Recorded:
    """The files by their real place, and the hooks that lead imports to them."""

    def __init__(self, code: Code) -> None:
        self.digest = code.digest
        self._files = {os.path.realpath(path): content for path, content in code.placed.items()}
        self._roots = [Path(os.path.realpath(root)) for root in code.roots.values()]
        for place in sorted({os.path.dirname(path) for path in self._files}):  # noqa: PTH120 - quicker
            if not any(map(Path(place).is_relative_to, self._roots)):  # a link led out of them
                self._roots.append(Path(place))
        self._ours = [
            Path(os.path.realpath(each)) for name in OUR_CODE for each in getattr(sys.modules.get(name), "__path__", ())
        ]

    def loader(self, fullname: str, path: str) -> RecordedLoader | None:
        content = self._files.get(os.path.realpath(path))
        return None if content is None else RecordedLoader(fullname, path, content, self.digest)

    def hook(self, place: str) -> _Finder:
        """For ``sys.path_hooks``."""
        if not self.has(place):
            raise ImportError(place)
        return _Finder(place, self)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """For ``sys.meta_path``: names that an editable install maps to files."""
        for finder in sys.meta_path if path is None else ():
            if _module_of(finder).startswith(MAPS):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None and spec.origin and self.has(spec.origin):
                    spec.loader = self.loader(fullname, spec.origin)
                    return spec if spec.loader else None
        return None

    def has_otherwise(self, name: str, module: ModuleType) -> bool:
        """Whether the module is one of the user's, but of other bytes. A compiled one cannot be imported twice."""
        file, loader = getattr(module, "__file__", None), getattr(module, "__loader__", None)
        same = isinstance(loader, RecordedLoader) and loader.digest == self.digest
        others = same or isinstance(loader, ExtensionFileLoader) or name == "__main__"
        return bool(file) and not others and self.has(str(file))

    def has(self, place: str) -> bool:
        """Whether it lies in the user's folders."""
        real = Path(os.path.realpath(place or os.curdir))
        if any(real.is_relative_to(ours) for ours in self._ours):
            return False
        return any(_is_own(real, root) for root in self._roots if real.is_relative_to(root))


def _is_own(place: Path, root: Path) -> bool:
    """Whether no folder between the two is hidden, or holds Python or installed packages."""
    between = [each for each in (place, *place.parents) if each != root and each.is_relative_to(root)]
    return not any(each.name.startswith(".") or each.name in INSTALLS or holds_python(each) for each in between)


@cache
def holds_python(folder: Path) -> bool:
    """Whether this is a Python installation or environment, or its standard library."""
    return (folder / "pyvenv.cfg").exists() or (folder / "conda-meta").exists() or os.path.realpath(folder) in PYTHON


def use_code(code: Code | None) -> None:
    """From now on this process imports these bytes; it forgets modules of the same folders that it has from elsewhere.

    A process that another study has used must not go on with the modules of that one.
    """
    _remove()
    if code is None:
        return
    known = _install(code)
    if others := [name for name, module in list(sys.modules.items()) if known.has_otherwise(name, module)]:
        for name in others:
            del sys.modules[name]
        forget_tasks()


@contextmanager
def using_code(code: Code | None) -> Iterator[None]:
    """Within it, what was not imported yet comes from these bytes: in the process that has read them."""
    if code is not None:
        _install(code)
    try:
        yield
    finally:
        _remove()


_installed: list[_Recorded] = []


def _install(code: Code) -> _Recorded:
    known = _Recorded(code)
    _installed.append(known)
    sys.path_hooks.insert(0, known.hook)
    sys.meta_path.insert(_before_maps(), known)
    _forget_finders()
    return known


def _remove() -> None:
    for known in _installed:
        sys.path_hooks.remove(known.hook)
        sys.meta_path.remove(known)
    _installed.clear()
    _forget_finders()


def _forget_finders() -> None:
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def _before_maps() -> int:
    """Behind Python's own finders, or where the first map is."""
    maps = [place for place, finder in enumerate(sys.meta_path) if _module_of(finder).startswith(MAPS)]
    return min([*maps, len(sys.meta_path)])


def _module_of(finder: Any) -> str:
    return str(getattr(finder, "__module__", "") if isinstance(finder, type) else type(finder).__module__)
