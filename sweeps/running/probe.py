"""A file that every node must see where it shares the folder of the checkpoints."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tracking.process import has_ended, own_birth

NAME = ".seen-by-nodes"


@dataclass(frozen=True)
class Probe:
    """``content`` is new for each sweep, so that an old file on a node's own disk does not count.

    It begins with the birth of the sweep's process.
    """

    folder: str
    content: str

    @property
    def path(self) -> Path:
        """A file of its own, since several sweeps may share a place."""
        return Path(self.folder, f"{NAME}-{self.content}")

    def is_seen(self) -> bool:
        """Whether this process sees the file. Storage that cannot be read is not seen."""
        try:
            return self.path.read_text("utf-8") == self.content
        except OSError:
            return False

    def remove(self) -> None:
        with suppress(OSError):  # storage that is read-only by now
            self.path.unlink(missing_ok=True)


@contextmanager
def probing(study: Path, place: str | None) -> Iterator[Probe | None]:
    """Write the file where checkpoints go: to ``place``, or into the study's folder. None for a remote place."""
    if place is not None and "://" in place:
        yield None
        return
    folder = study / ".locks" if place is None else Path(place)
    folder.mkdir(parents=True, exist_ok=True)
    _remove_dead(folder)
    probe = Probe(str(folder), f"{own_birth()}-{uuid.uuid4().hex}")
    try:
        probe.path.write_text(probe.content, "utf-8")
        yield probe
    finally:
        probe.remove()


def _remove_dead(folder: Path) -> None:
    """Remove the files of killed sweeps, other than those of another user."""
    for path in folder.glob(f"{NAME}-*"):
        if has_ended(path.name.removeprefix(f"{NAME}-").rpartition("-")[0]):
            with suppress(OSError):
                path.unlink()
