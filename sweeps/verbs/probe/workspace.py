"""The fresh folder in which a command is probed. It links to the user's files."""

import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

OUTPUT_FOLDERS = {
    *("lightning_logs", "logs", "mlruns", "multirun", "outputs", "results", "runs", "tb_logs"),
    *("tensorboard", "wandb", "__pycache__"),
}
"""Folders of earlier output. The command gets fresh ones."""
MOST_LINKS = 2000
"""Links to single files: making them takes a moment, and so does looking for new files."""
State = tuple[int, int] | None
"""Size and time of the last change."""
ABOVE = 2
"""Folders above the current one that are linked, too: a command may read ``../data``."""


@dataclass(frozen=True)
class Workspace:
    """A fresh folder: ``out`` is the command's {out}. It runs in ``work``, which links to the
    user's files in ``here``; ``linked`` has their states. ``output`` takes what it prints."""

    out: Path
    work: Path
    output: Path
    here: Path
    linked: dict[Path, State] = field(default_factory=dict)

    def changed_files(self) -> list[str]:
        """The user's files that the command has changed through their links."""
        states = self.linked.items()
        return [file.as_posix() for file, state in states if _state(self.here / file) != state]


@contextmanager
def fresh_workspace(here: Path) -> Iterator[Workspace]:
    """Removed at the end, with all that was written there."""
    folder = Path(tempfile.mkdtemp(prefix="allelse-probe-")).resolve()
    names = here.resolve().parts[1:][-1 - ABOVE :]
    workspace = Workspace(folder / "out", Path(folder, "files", *names), folder / "stdout", here)
    try:
        workspace.out.mkdir()
        workspace.work.mkdir(parents=True)
        workspace.output.touch()
        workspace.linked.update(_mirror(here, workspace.work))
        places = workspace.work.parents[: len(names) - 1]
        for around, place in zip(here.resolve().parents, places, strict=False):
            with suppress(OSError):  # a folder that can't be listed
                _link(around, place)
        yield workspace
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _link(folder: Path, place: Path) -> None:
    """Link the folder's entries, other than hidden folders."""
    for entry in folder.iterdir():
        link = place / entry.name
        if not _is_hidden_folder(entry) and not link.exists():
            link.symlink_to(entry.absolute())


def _mirror(folder: Path, place: Path) -> dict[Path, State]:
    """Make the same folders with links to the files, and return these files' states by their path
    in ``folder``. What the command writes beside a file stays in ``place``.

    Beyond ``MOST_LINKS``, folders are linked, too.
    """
    states: dict[Path, State] = {}
    folders = deque([(folder.absolute(), place)])
    while folders:
        source, target = folders.popleft()
        entries = _entries(source)
        if source != folder.absolute():
            if entries is None or len(states) + len(entries) > MOST_LINKS:
                target.symlink_to(source)
                continue
            target.mkdir()
        for entry in entries or ():
            is_top = target == place
            if is_top and (_is_hidden_folder(entry) or entry.name in OUTPUT_FOLDERS):
                continue
            if entry.is_dir() and not entry.is_symlink():
                if place.is_relative_to(entry.resolve()):
                    continue  # it holds the fresh folder itself
                folders.append((entry, target / entry.name))
            else:
                (target / entry.name).symlink_to(entry)
                states[entry.relative_to(folder.absolute())] = _state(entry)
    return states


def _entries(folder: Path) -> list[Path] | None:
    """None for a folder that can't be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return None


def _is_hidden_folder(path: Path) -> bool:
    return path.name.startswith(".") and path.is_dir()


def _state(file: Path) -> State:
    """None for a link to nothing, or a file that is gone."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
