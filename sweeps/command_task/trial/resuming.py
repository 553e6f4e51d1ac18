"""The checkpoints that a command writes below ``{out}``, and the one that ``{resume}`` names."""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STABLE_S = 1.0
"""How long a checkpoint must not change to count as complete, while its command runs."""
RECORD = "resume.json"


@dataclass(frozen=True)
class Written:
    """A match of the pattern ``checkpoint:``: its path below ``{out}``, its size and its newest
    time in nanoseconds."""

    path: str
    size: int
    changed: int


@dataclass(frozen=True)
class Resumable:
    """A complete checkpoint. ``step`` is that of the last report after it was written."""

    written: Written
    step: int

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Resumable":
        return cls(Written(**content["written"]), content["step"])


class CheckpointWatch:
    """Watches the checkpoints of a running command. ``pattern`` is a glob below ``out``."""

    def __init__(self, out: Path, pattern: str) -> None:
        self._out = out
        self._pattern = pattern
        self._since: dict[Written, float] = {}
        self.complete: Written | None = newest(out, pattern)

    def look(self) -> None:
        """Find the newest checkpoint that has not changed for a while."""
        now = time.monotonic()
        matches = list(matches_in(self._out, self._pattern))
        self._since = {written: self._since.get(written, now) for written in matches}
        stable = [written for written in matches if now - self._since[written] >= STABLE_S]
        if stable:
            self.complete = max(stable, key=_age)

    def end(self) -> Written | None:
        """The newest checkpoint of a command that has ended."""
        return newest(self._out, self._pattern)


def newest(out: Path, pattern: str) -> Written | None:
    """The match that was written last; None without one."""
    return max(matches_in(out, pattern), key=_age, default=None)


def matches_in(out: Path, pattern: str) -> Iterator[Written]:
    """All files and folders below ``out`` that match. One that is removed meanwhile is left out."""
    for path in out.glob(pattern):
        try:
            files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else []
            stats = [file.stat() for file in (path, *files)]
        except OSError:
            continue
        size = sum(stat.st_size for stat in stats)
        changed = max(stat.st_mtime_ns for stat in stats)
        yield Written(path.relative_to(out).as_posix(), size, changed)


def _age(written: Written) -> tuple[int, str]:
    return written.changed, written.path


@dataclass(frozen=True)
class Beginning:
    """Where an attempt begins. ``checkpoint`` is None at the start.

    ``is_exact``: the journal has all reports from before the checkpoint. Otherwise they are in what
    earlier attempts wrote.
    """

    checkpoint: Path | None = None
    is_exact: bool = True


def beginning_of(out: Path, pattern: str, home: Path, state: Any, step: int) -> Beginning:
    """The newest checkpoint from before the last report, ``step``, that is still as it was.

    ``home`` has the record of the last one; ``state`` is that of the platform's checkpoint. If none
    of them is left, it is the newest match that is whole.
    """
    present = set(matches_in(out, pattern))
    for content in (read_record(home), state):
        resumable = Resumable.of(content) if content else None
        if resumable and resumable.step <= step and resumable.written in present:
            return Beginning(out / resumable.written.path)
    last = newest_whole(out, present)
    return Beginning(out / last.path, is_exact=False) if last else Beginning()


def newest_whole(out: Path, matches: Iterable[Written]) -> Written | None:
    """The newest match, or the one before it: a kill may have cut the newest one short, so that it
    lacks files."""
    newest_first = sorted(matches, key=_age, reverse=True)
    if len(newest_first) > 1:
        last, earlier = newest_first[:2]
        if not _file_names(out / earlier.path) <= _file_names(out / last.path):
            return earlier
    return newest_first[0] if newest_first else None


def _file_names(checkpoint: Path) -> set[str]:
    """The files of a checkpoint that is a folder. A number in a name may be that of the step."""
    files = checkpoint.rglob("*") if checkpoint.is_dir() else ()
    return {re.sub(r"\d+", "", file.relative_to(checkpoint).as_posix()) for file in files}


def read_record(home: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads((home / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return content


def write_record(home: Path, resumable: Resumable) -> None:
    temporary = home / f".{RECORD}"
    temporary.write_text(json.dumps(asdict(resumable)), "utf-8")
    temporary.replace(home / RECORD)
