"""The processes that run trials of a study, on any machine, and requests to stop them.

A process that holds the locks of trials rewrites its record in `<study>/.running/` every ``BEAT_S``
seconds, since other machines can't ask whether it is alive. A request to stop lies next to the
record.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tracking.attempts import AttemptRecord, Process
from tracking.files import read_object, to_json, unless_damaged, write_atomic
from tracking.words import time as span

FOLDER = ".running"
BEAT_S = 10.0
"""Between two signs of life. Many processes may share the folder."""
SILENT_S = 120.0
"""After this long without a sign of life, a process on another machine may be gone. A shared folder
may lag by a minute."""


@dataclass(frozen=True)
class Runner:
    """The record of a process that holds the locks of ``trials``. Times are in Unix seconds.

    ``seen`` is its last sign of life. ``waiting``: what its trials wait for. ``left``: seconds from
    ``seen`` until its last trial ends, extrapolated; None before one has finished.
    """

    process: Process
    command: str
    trials: tuple[str, ...]
    since: float
    seen: float
    waiting: str = ""
    left: float | None = None

    def __str__(self) -> str:
        """Such as "pid 12 on node-a since 2030-01-31 12:00 (2 min 10 s ago): allelse sweep"."""
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        age = span(max(0.0, time.time() - self.since))
        return f"{self.process} since {since} ({age} ago): {self.command}"

    def lives(self) -> bool:
        """Whether it runs on this machine, or recently showed a sign of life on another one."""
        if self.process.is_here:
            return self.process.lives_here
        return time.time() - self.seen < SILENT_S


@dataclass(frozen=True)
class StopRequest:
    """What a process was asked to stop: everything, these trials, or nothing so far."""

    everything: bool = False
    trials: frozenset[str] = frozenset()

    def covers(self, trial: str) -> bool:
        return self.everything or trial in self.trials


def announce(study: Path, runner: Runner) -> None:
    """Write its record. Raises OSError."""
    write_atomic(_record(study, runner), to_json(asdict(runner)) + "\n")


def withdraw(study: Path, runner: Runner) -> None:
    """Remove its files, and those of processes that are gone. They stay if the storage has become
    read-only.

    A process that was only silent writes its record again.
    """
    gone = [record for record in known_runners(study) if not record.lives()]
    for ended in (runner, *gone):
        for path in (_record(study, ended), _requests(study, ended)):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def known_runners(study: Path) -> list[Runner]:
    """Every process that announced itself and did not withdraw, also a killed one."""
    records = [_read(path) for path in sorted((study / FOLDER).glob("*.json"))]
    return [runner for runner in records if runner is not None]


def runners(study: Path) -> list[Runner]:
    """Those that run."""
    return [runner for runner in known_runners(study) if runner.lives()]


def holder_of(study: Path, trial: str) -> Runner | None:
    """The process that holds the trial's lock; on another machine even a silent one. `allelse
    evaluate` leaves no record."""
    holders = []
    for runner in known_runners(study):
        may_live = runner.lives() or not runner.process.is_here
        if may_live and trial in runner.trials:
            holders.append(runner)
    return max(holders, key=lambda runner: runner.since, default=None)


def runs(attempt: AttemptRecord, running: Sequence[Runner]) -> bool:
    """Whether the attempt is open, and its process is alive here or one of the ``running`` ones."""
    if attempt.lives():
        return True
    return attempt.ended is None and attempt.process in [runner.process for runner in running]


def seconds_left(running: Sequence[Runner]) -> float | None:
    """Seconds until the last of these processes ends.

    None if one does not know its end, or if all are late.
    """
    longest = 0.0
    for runner in running:
        if runner.left is None:
            return None
        longest = max(longest, runner.left - (time.time() - runner.seen))
    return longest if longest > 0 else None


def request_stop(study: Path, runner: Runner, trials: Sequence[str] | None) -> None:
    """Ask the process to stop these trials, or everything.

    It looks every second. Raises OSError.
    """
    earlier = stop_request(study, runner)
    names = None
    if trials is not None and not earlier.everything:
        names = sorted({*trials, *earlier.trials})
    write_atomic(_requests(study, runner), to_json({"trials": names}) + "\n")


def stop_request(study: Path, runner: Runner) -> StopRequest:
    """What the process was asked to stop so far."""
    content = unless_damaged(lambda: read_object(_requests(study, runner)), None)
    if not content:
        return StopRequest()
    trials = content.get("trials")
    if trials is None:
        return StopRequest(everything=True)
    return StopRequest(trials=frozenset(map(str, trials)))


def in_hand(
    study: Path, trials: Collection[str], newest: Callable[[str], AttemptRecord | None]
) -> set[str]:
    """The trials that a process runs, on any machine, or will run.

    ``newest`` gives a trial's last attempt.
    """
    names: set[str] = set()
    for runner in runners(study):
        request = stop_request(study, runner)
        for name in {*trials} & {*runner.trials}:
            if _has_in_hand(runner, newest(name), must_stop=request.covers(name)):
                names.add(name)
    return names


def _has_in_hand(runner: Runner, newest: AttemptRecord | None, must_stop: bool) -> bool:
    """A process that must stop still ends the attempt that it has begun.

    It only tries again after a loss.
    """
    if newest is None or newest.process != runner.process:
        return not must_stop
    if newest.ended is None:
        return True
    return not must_stop and str(newest.reason).startswith("worker lost")


def _read(path: Path) -> Runner | None:
    """None if the record is damaged, or of another version."""
    try:
        content = json.loads(path.read_text("utf-8"))
        process = Process(**content.pop("process"))
        trials = tuple(content.pop("trials"))
        return Runner(process, trials=trials, **content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _record(study: Path, runner: Runner) -> Path:
    return study / FOLDER / f"{runner.process.host}-{runner.process.birth}.json"


def _requests(study: Path, runner: Runner) -> Path:
    return _record(study, runner).with_suffix(".stop")
