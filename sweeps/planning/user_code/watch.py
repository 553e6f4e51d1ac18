"""Watches the files of a sweep's code."""

from pathlib import Path

from sweeps.planning.user_code.files import content_of
from tracking.code import Code


class CodeWatch:
    """Says once that files have changed since a sweep began."""

    def __init__(self, code: Code | None) -> None:
        self._contents: dict[Path, bytes] = {}
        self._names: dict[Path, str] = {}
        self._stats: dict[Path, tuple[int, int] | None] = {}
        if code is None:
            return
        for name in sorted(code.files):
            path = code.place(name)
            self._names[path] = name
            self._contents[path] = code.files[name]

    def __call__(self) -> str:
        """A line; "" if nothing has changed, or if it was already said."""
        changed = [name for path, name in self._names.items() if self._has_changed(path)]
        if not changed:
            return ""
        self._names = {}
        return f"{', '.join(changed)} changed: this sweep keeps the code it started with"

    def _has_changed(self, path: Path) -> bool:
        """Reads the file only if its time or its size differs from the last time."""
        stat = _stat(path)
        if path in self._stats and self._stats[path] == stat:
            return False
        self._stats[path] = stat
        return content_of(path) != self._contents[path]


def _stat(path: Path) -> tuple[int, int] | None:
    """The time of the last change, and the size."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
