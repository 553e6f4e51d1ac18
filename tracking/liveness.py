"""Who runs a study's trials, and who lives: one record per process, and requests to stop it.

A process that holds the locks of trials keeps its record in `<study>/.running/`, and writes it again every ``BEAT_S``
seconds: other machines cannot ask whether it lives. A request to stop lies next to the record.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tracking.attempts import Attempt, Process
from tracking.damage import unless_damaged
from tracking.files import read_object, to_json, write_atomic
from tracking.words import time as span

FOLDER = ".running"
BEAT_S = 10.0
"""Between two signs of life: a small file, on a folder that may be shared by many."""
SILENT_S = 120.0
"""A process on another machine that gave no sign for so long may be gone: a shared folder may lag by a minute."""


@dataclass(frozen=True)
class Runner:
    """The record of a process that holds the locks of ``trials``. Times are in Unix seconds.

    ``seen`` is its last sign of life. ``waiting`` says for what its trials wait. ``left``: seconds from ``seen`` until
    its last trial ends, extrapolated; None before any pace is known.
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
        return f"{self.process} since {since} ({span(max(0.0, time.time() - self.since))} ago): {self.command}"

    def lives(self) -> bool:
        """Whether it runs on this machine, or gave a sign on another one a moment ago."""
        return self.process.lives_here if self.process.is_here else time.time() - self.seen < SILENT_S


def announce(study: Path, runner: Runner) -> None:
    """Write its record. Raises OSError."""
    write_atomic(_record(study, runner), to_json(asdict(runner)) + "\n")


def withdraw(study: Path, runner: Runner) -> None:
    """Remove its files, and those of processes that are gone. A fault of storage, read-only by now, leaves them.

    A process that was only silent writes its record again.
    """
    for each in (runner, *(other for other in known_runners(study) if not other.lives())):
        for path in (_record(study, each), _requests(study, each)):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def known_runners(study: Path) -> list[Runner]:
    """Every process that announced itself and did not withdraw, also one that was killed."""
    found = [_read(path) for path in sorted((study / FOLDER).glob("*.json"))]
    return [runner for runner in found if runner is not None]


def runners(study: Path) -> list[Runner]:
    """Those that run."""
    return [runner for runner in known_runners(study) if runner.lives()]


def holder_of(study: Path, trial: str) -> Runner | None:
    """Who holds the trial's lock, on another machine also if it is silent. `allelse evaluate` leaves no record."""
    there = [runner for runner in known_runners(study) if runner.lives() or not runner.process.is_here]
    return max((each for each in there if trial in each.trials), key=lambda each: each.since, default=None)


def runs(attempt: Attempt, running: Sequence[Runner]) -> bool:
    """Whether the attempt is open and its process is here, or one of those that are ``running`` on any machine."""
    elsewhere = attempt.ended is None and attempt.process in [runner.process for runner in running]
    return elsewhere or attempt.lives()


def seconds_left(running: Sequence[Runner]) -> float | None:
    """Until the last of these processes ends; None if one of them does not know, or if all are late."""
    now = time.time()
    known = [runner.left - (now - runner.seen) for runner in running if runner.left is not None]
    left = max(known, default=0.0)
    return left if left > 0 and len(known) == len(running) else None


def request_stop(study: Path, runner: Runner, trials: Sequence[str] | None) -> None:
    """Ask the process to stop these trials, or everything. It looks every second. Raises OSError."""
    before = stop_requests(study, runner)
    wanted = None if trials is None or before is None else sorted({*trials, *before})
    write_atomic(_requests(study, runner), to_json({"trials": wanted}) + "\n")


def stop_requests(study: Path, runner: Runner) -> tuple[str, ...] | None:
    """The trials that it was asked to stop, () for none; None means everything."""
    content = unless_damaged(lambda: read_object(_requests(study, runner)), None) or {"trials": []}
    trials = content.get("trials")
    return None if trials is None else tuple(map(str, trials))


def in_hand(study: Path, trials: Collection[str], newest: Callable[[str], Attempt | None]) -> set[str]:
    """Those of the trials that a process runs, on any machine, or will run. ``newest`` gives a trial's last attempt."""
    asked = [(runner, stop_requests(study, runner)) for runner in runners(study)]
    return {
        each
        for runner, stops in asked
        for each in {*trials} & {*runner.trials}
        if _has_in_hand(runner, newest(each), stops is None or each in stops)
    }


def _has_in_hand(runner: Runner, newest: Attempt | None, asked_to_stop: bool) -> bool:
    """A process that was asked to stop still ends the attempt that it has begun. It tries again after a loss alone."""
    own = newest if newest and newest.process == runner.process else None
    if own and own.ended is None:
        return True
    return not asked_to_stop and (own is None or str(own.reason).startswith("worker lost"))


def _read(path: Path) -> Runner | None:
    """None if it is damaged, or of another version."""
    try:
        content = json.loads(path.read_text("utf-8"))
        process, trials = Process(**content.pop("process")), tuple(content.pop("trials"))
        return Runner(process, trials=trials, **content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _record(study: Path, runner: Runner) -> Path:
    return study / FOLDER / f"{runner.process.host}-{runner.process.birth}.json"


def _requests(study: Path, runner: Runner) -> Path:
    return _record(study, runner).with_suffix(".stop")
