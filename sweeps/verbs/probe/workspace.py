"""The fresh folder in which a command is probed. It links to the user's files."""

import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

OUTPUT_FOLDERS = {
    *("lightning_logs", "logs", "mlruns", "multirun", "outputs", "results", "runs", "tb_logs"),
    *("tensorboard", "wandb", "__pycache__"),
}
"""Folders of earlier output. The command gets fresh ones."""
ABOVE = 2
"""Folders above the current one that are linked, too: a command may read ``../data``."""


@dataclass(frozen=True)
class Workspace:
    """A fresh folder: ``out`` is the command's {out}. It runs in ``work``, which links to the
    user's files. ``output`` takes what it prints."""

    out: Path
    work: Path
    output: Path


@contextmanager
def fresh_workspace(here: Path) -> Iterator[Workspace]:
    """Removed at the end, with all that was written there."""
    folder = Path(tempfile.mkdtemp(prefix="allelse-probe-")).resolve()
    names = here.resolve().parts[1:][-1 - ABOVE :]
    workspace = Workspace(folder / "out", Path(folder, "files", *names), folder / "stdout")
    try:
        workspace.out.mkdir()
        workspace.work.mkdir(parents=True)
        workspace.output.touch()
        _link(here, workspace.work, OUTPUT_FOLDERS)
        places = workspace.work.parents[: len(names) - 1]
        for around, place in zip(here.resolve().parents, places, strict=False):
            with suppress(OSError):  # a folder that can't be listed
                _link(around, place)
        yield workspace
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _link(folder: Path, place: Path, passed_over: Collection[str] = ()) -> None:
    """Link the folder's entries, other than hidden folders and those that are passed over."""
    for entry in folder.iterdir():
        is_hidden_folder = entry.name.startswith(".") and entry.is_dir()
        link = place / entry.name
        if not is_hidden_folder and entry.name not in passed_over and not link.exists():
            link.symlink_to(entry.absolute())
