"""The processes that run trials of a study now, and requests to stop them: small files in `<study>/.running/`.

A process announces itself there and repeats it every ``BEAT_S`` seconds, so that other machines know that it runs.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tracking.damage import unless_damaged
from tracking.files import read_object, to_json, write_atomic
from tracking.process import is_alive, is_here
from tracking.trial_folder import Attempt

FOLDER = ".running"
BEAT_S = 10.0
SILENT_S = 120.0
"""A process on another machine that gave no sign for so long may be gone; nobody here can ask."""
KEPT_S = 7 * 86400.0


@dataclass(frozen=True)
class Runner:
    """One process. Times are in Unix seconds; ``seen`` is its last sign of life. ``waiting`` says for what it waits.

    ``left``: seconds from ``seen`` until its last trial ends, extrapolated; None before any pace is known. ``birth``
    tells it from other processes with its host name and pid.
    """

    host: str
    pid: int
    began: float
    seen: float
    trials: tuple[str, ...]
    waiting: str = ""
    birth: str = ""
    left: float | None = None

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{re.sub(r'[^A-Za-z0-9.-]', '_', self.host)}-{self.birth or self.pid}"

    @property
    def is_here(self) -> bool:
        """Whether it runs, or ran, on this machine, outside other containers."""
        return is_here(self.host, self.birth)

    def began_attempt(self, attempt: Attempt) -> bool:
        """Whether it is the process of this attempt."""
        return (self.host, self.pid, self.birth) == attempt.process

    def lives(self, now: float | None = None) -> bool:
        """Whether it runs on this machine, or gave a sign on another one a moment ago."""
        if self.is_here:
            return is_alive(self.pid, self.began, self.birth)
        return (time.time() if now is None else now) - self.seen < SILENT_S


def seconds_left(running: Sequence[Runner]) -> float | None:
    """Until the last of these processes ends; None if one of them does not know, or if all are late."""
    now, known = time.time(), [runner for runner in running if runner.left is not None]
    left = max((runner.left - (now - runner.seen) for runner in known if runner.left is not None), default=0.0)
    return left if left > 0 and len(known) == len(running) else None


def announce(study: Path, runner: Runner) -> None:
    """Write the runner's file. Raises OSError."""
    write_atomic(_file(study, runner), to_json(asdict(runner)) + "\n")


def withdraw(study: Path, runner: Runner) -> None:
    """Remove its files, and those of processes that are gone for good."""
    gone = [other for other in known_runners(study) if not other.lives() and (other.is_here or _is_old(other))]
    for each in (runner, *gone):
        for path in (_file(study, each), _requests(study, each)):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def known_runners(study: Path) -> list[Runner]:
    """Every process that announced itself and did not withdraw, also one that was killed."""
    return list(_read(study))


def runners(study: Path) -> list[Runner]:
    """Those that run."""
    return [runner for runner in known_runners(study) if runner.lives()]


def runs_somewhere(attempt: Attempt, running: Sequence[Runner]) -> bool:
    """Whether the attempt is open and its process is here, or one of those that are ``running`` on any machine."""
    return attempt.lives() or (attempt.ended is None and any(each.began_attempt(attempt) for each in running))


def request_stop(study: Path, runner: Runner, trials: Sequence[str] | None) -> None:
    """Ask the process to stop these trials, or everything. It looks every second. Raises OSError."""
    before = stop_requests(study, runner)
    wanted = None if trials is None or before is None else sorted({*trials, *before})
    write_atomic(_requests(study, runner), to_json({"ts": time.time(), "trials": wanted}) + "\n")


def stop_requests(study: Path, runner: Runner) -> tuple[str, ...] | None:
    """The trials that it was asked to stop, () for none; None means everything."""
    content = unless_damaged(lambda: read_object(_requests(study, runner)), None) or {"trials": []}
    trials = content.get("trials")
    return None if trials is None else tuple(map(str, trials))


def in_hand(study: Path, trials: Collection[str], newest: Callable[[str], Attempt | None]) -> set[str]:
    """Those of the trials that a process runs, on any machine, or will run. ``newest`` gives a trial's last attempt."""
    found = set[str]()
    for runner in runners(study):
        asked = stop_requests(study, runner)
        given = {*trials} & {*runner.trials}
        found |= {each for each in given if _has_in_hand(runner, newest(each), asked is None or each in asked)}
    return found


def _has_in_hand(runner: Runner, newest: Attempt | None, asked_to_stop: bool) -> bool:
    """A process that was asked to stop still ends the attempt that it has begun. It runs no failed trial again."""
    if newest is None or not runner.began_attempt(newest):
        return not asked_to_stop
    if newest.ended is None:
        return True
    return not asked_to_stop and not (newest.reason or "").startswith("failed")


def _read(study: Path) -> Iterator[Runner]:
    for path in sorted((study / FOLDER).glob("*.json")):
        content = unless_damaged(lambda path=path: read_object(path), None) or {}  # type: ignore[misc]
        with suppress(KeyError, TypeError, ValueError):
            trials = tuple(map(str, content["trials"]))
            times = float(content["began"]), float(content["seen"])
            words = str(content.get("waiting", "")), str(content.get("birth", ""))
            left = None if content.get("left") is None else float(content["left"])
            yield Runner(str(content["host"]), int(content["pid"]), *times, trials, *words, left)


def _is_old(runner: Runner) -> bool:
    return time.time() - runner.seen > KEPT_S


def _file(study: Path, runner: Runner) -> Path:
    return study / FOLDER / f"{runner.name}.json"


def _requests(study: Path, runner: Runner) -> Path:
    return study / FOLDER / f"{runner.name}.stop"
