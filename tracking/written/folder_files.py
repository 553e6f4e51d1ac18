"""The files below a folder. A look at a folder that has not changed costs one stat."""

import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tracking.written.source_kinds import DATA_FOLDERS

SETTLED_S = 2.0
"""A folder may change again within one tick of the file system's clock. One that changed this long
before it was listed is listed again only after its next change."""
MOST_FOLDERS = 2000


@dataclass
class Listing:
    """What a folder held when it was listed."""

    stamp: tuple[int, int] = (0, 0)
    is_settled: bool = False
    folders: list[Path] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


class FolderFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listings: dict[Path, Listing] = {}

    def new_files(self) -> list[Path]:
        """The files that the last call did not have."""
        files: list[Path] = []
        waiting = deque([self._folder])  # those near the top first
        for _ in range(MOST_FOLDERS):
            if not waiting:
                break
            folder = waiting.popleft()
            earlier = self._listings.get(folder, Listing())
            listing = _listed(folder, earlier)
            self._listings[folder] = listing
            waiting += listing.folders
            if listing is not earlier:
                earlier_files = set(earlier.files)
                files += [path for path in listing.files if path not in earlier_files]
        return sorted(files)


def _listed(folder: Path, earlier: Listing) -> Listing:
    """The earlier listing if the folder has not changed, and an empty one if it can't be read."""
    try:
        status = folder.stat()
        stamp = (status.st_ino, status.st_mtime_ns)
        if stamp == earlier.stamp and earlier.is_settled:
            return earlier
        entries = list(_entries(folder))
    except OSError:
        return Listing()
    folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    files = [Path(entry.path) for entry in entries if entry.is_file(follow_symlinks=False)]
    is_settled = time.time() - status.st_mtime > SETTLED_S
    return Listing(stamp, is_settled, folders, files)


def _entries(folder: Path) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and entry.name not in DATA_FOLDERS:
                yield entry
