"""The folder from which tasks are imported. Modules of one name may lie in two folders."""

import importlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType


@dataclass
class _Folder:
    """``before`` are the modules that were loaded before any from here; ``left`` are its own, while it is left."""

    place: Path
    before: frozenset[str]
    left: dict[str, ModuleType] = field(default_factory=dict)

    def leave(self) -> None:
        """Take its modules out of ``sys.modules``: another folder may have others of the same names."""
        self.left = {name: module for name, module in list(sys.modules.items()) if self._has(name)}
        for name in self.left:
            del sys.modules[name]
        if str(self.place) in sys.path:
            sys.path.remove(str(self.place))

    def enter(self) -> None:
        """Put them back, as pickles name them."""
        sys.modules.update(self.left)
        if str(self.place) not in sys.path:
            sys.path.insert(0, str(self.place))
        importlib.invalidate_caches()

    def _has(self, name: str) -> bool:
        """Whether the module, or the package that holds it, lies directly in the folder."""
        top = name.partition(".")[0]
        file = getattr(sys.modules.get(top), "__file__", None)
        if top in self.before or file is None:
            return False
        return self.place in (Path(file).parent, Path(file).parent.parent) and Path(file).stem in (top, "__init__")


_folders: dict[str, _Folder] = {}
_current: list[_Folder] = []


def enter(here: str) -> None:
    """Import from this folder, besides installed packages, until another one is entered."""
    if _current and str(_current[0].place) == here:
        return
    for folder in _current:
        folder.leave()
    _current[:] = [_folders.setdefault(here, _Folder(Path(here), frozenset(sys.modules)))]
    _current[0].enter()
