"""Whether a file has changed since it was last looked at: by its inode, its size and its time."""

import os
from pathlib import Path


class FileStamp:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, ...] = ()

    def changed(self) -> os.stat_result | None:
        """The file's status; None if it is as it was at the last call, or not there."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        return status

    def forget(self) -> None:
        """The next call finds it changed."""
        self._stamp = ()
