"""One strike: a fault, perhaps a second one meanwhile, until the study trains again."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import psutil
from faults import UNTIL_TRAINING, End, Fault, NothingToHitError
from target import Standing, Target, finished_at, first_report

PATIENCE_S = 600.0
"""For training again, on any machine."""
MISSED_S = 60.0
"""When an attempt that should have been lost still trains by then, the fault hit nothing that
mattered: a trial that had just ended, or a worker that was cut off and has a successor."""
ENDING_S = 20.0
"""How long a trial may go on that finishes although the sweep was to end."""
TEND_S = 1.0


@dataclass(frozen=True)
class Strike:
    """What was drawn. The ``second`` fault follows ``pause`` seconds later, unless the sweep has
    recovered.

    ``measured``: it waits until all trials train and no machine is missing, so that the seconds are
    this fault's alone.
    """

    number: int
    fault: Fault
    lasts: float
    second: Fault | None = None
    pause: float = 0.0
    measured: bool = False

    @property
    def words(self) -> str:
        then = f", then {self.second.name} after {self.pause:.1f} s" if self.second else ""
        lasts = "until training goes on" if self.lasts == UNTIL_TRAINING else f"{self.lasts:.1f} s"
        return f"{self.number}: {self.fault.name} [{lasts}]{then}"


@dataclass
class Recovery:
    """What came of it. ``seconds`` until training again; None if the faults hit nothing that they
    should have."""

    number: int
    faults: list[str]
    seconds: float | None
    typed_again: int

    @property
    def words(self) -> str:
        delay = "hit nothing" if self.seconds is None else f"{self.seconds:.1f} s to training again"
        return f"{delay}, typed again {self.typed_again} times"


@dataclass(frozen=True)
class Due:
    """What repairs a fault: at a time, or once the sweep has ended."""

    at: float
    repair: Callable[[], None]
    at_the_end: bool


class Striking:
    """One strike while it is under way."""

    def __init__(self, target: Target, strike: Strike, random: Random) -> None:
        self.target = target
        self.strike = strike
        self.drawn = random
        self.faults: list[Fault] = []
        self.repairs: list[Due] = []
        self.before: dict[str, Standing] = {}
        self.began = self.struck = self.since = 0.0  # ``since`` then, progress counts
        self.typed_again = 0

    def until_training(self) -> Recovery:
        """Strike and wait. Raises AssertionError if the sweep does not recover as it should."""
        self._inflict(self.strike.fault, self.strike.lasts)
        self.began = self.struck
        tended = 0.0
        while not self._trains_again():
            self._second()
            self._repair_due()
            if self.target.code is not None:
                if self.target.code == 0:  # the study is complete
                    self._check_it_was_ending()
                    break
                self._after_the_end()
            if time.time() - tended > TEND_S:
                self.target.tend()
                tended = time.time()
            if self._still_trains():
                break
            assert time.time() - self.struck < PATIENCE_S, (
                f"{PATIENCE_S:g} s after the fault, nothing trains"
            )
            time.sleep(0.1)
        if all(fault.loses is False for fault in self.faults):
            assert not self._hit(self.target.standings()), (
                "an attempt was lost, although nothing should be"
            )
        seconds = None if self._missed() else self._last_first_report() - self.began
        while self.repairs:
            self._repair_due(trains=True)
            time.sleep(0.1)
        names = [fault.name for fault in self.faults]
        return Recovery(self.strike.number, names, seconds, self.typed_again)

    def _check_it_was_ending(self) -> None:
        """A sweep that a fault was to end may complete its study only if it was about to."""
        trained_s = (
            max((standing.ts for standing in self.target.standings().values()), default=0.0)
            - self.struck
        )
        if self._ends_the_sweep():
            assert trained_s < ENDING_S, (
                f"it trained for {trained_s:.0f} s more, although {self.faults[-1].name}"
            )

    def _inflict(self, fault: Fault, lasts: float) -> None:
        standings = self.target.standings()
        struck = time.time()
        try:
            repair = fault.inflict(self.target, self.drawn)
        except psutil.NoSuchProcess:  # it ended at this very moment
            raise NothingToHitError from None
        self.before = standings
        self.struck = struck
        self.since = struck
        self.faults.append(fault)
        self.repairs.append(Due(self.struck + lasts, repair, at_the_end=bool(fault.ends)))

    def _second(self) -> None:
        """Strike again when it is time, once there is something to hit."""
        second = self.strike.second
        due = len(self.faults) == 1 and time.time() - self.began > self.strike.pause
        if second and due and self.target.code is None:
            try:
                self._inflict(second, 0.0)
            except NothingToHitError:
                time.sleep(0.1)

    def _repair_due(self, trains: bool = False) -> None:
        moment = time.time()
        ended = self.target.code is not None
        for due in [*self.repairs]:
            if (
                ended
                or (trains and due.at == UNTIL_TRAINING)
                or (moment > due.at and not due.at_the_end)
            ):
                self.repairs.remove(due)
                with suppress(psutil.NoSuchProcess):  # another fault has killed what was stopped
                    due.repair()
                self.since = self.since if self._must_lose() else time.time()

    def _ends_the_sweep(self) -> bool:
        return any(fault.ends for fault in self.faults)

    def _after_the_end(self) -> None:
        """Check how the sweep ended, repair, and type the command again."""
        check_end(self.target, [end for fault in self.faults for end in fault.ends])
        self._repair_due()
        self.target.type()
        self.typed_again += 1

    def _trains_again(self) -> bool:
        if self.target.code is not None or (self._ends_the_sweep() and not self.typed_again):
            return False
        if not self._must_lose():
            return not self.repairs and self._all_go_on(self.target.standings())
        return self._hit(standings := self.target.standings()) and self._all_go_on(standings)

    def _must_lose(self) -> bool:
        return any(fault.loses for fault in self.faults)

    def _all_go_on(self, standings: dict[str, Standing]) -> bool:
        return all(
            self._goes_on(standings[name], standing) for name, standing in self._running().items()
        )

    def _goes_on(self, standing: Standing, old_standing: Standing) -> bool:
        if standing.finished:
            return True
        if standing.attempt > old_standing.attempt:
            return standing.has_reported(self.since)
        return (
            not standing.ended
            and standing.step > old_standing.step
            and standing.has_reported(self.since)
        )

    def _running(self) -> dict[str, Standing]:
        return {name: standing for name, standing in self.before.items() if standing.runs}

    def _still_trains(self) -> bool:
        """Whether all attempts go on, although one was to be lost."""
        if self._ends_the_sweep() or time.time() - self.struck < MISSED_S:
            return False
        standings = self.target.standings()
        return not self._hit(standings) and self._all_go_on(standings)

    def _missed(self) -> bool:
        """Whether the faults had no effect, though they should have had one."""
        if self._ends_the_sweep():
            return not self.typed_again
        return self._must_lose() and not self._hit(self.target.standings())

    def _hit(self, standings: dict[str, Standing]) -> bool:
        """Whether an attempt was lost since the last fault."""
        return any(
            standings[name].attempt > standing.attempt for name, standing in self.before.items()
        )

    def _last_first_report(self) -> float:
        """When the last of the trials trained again that were to lose an attempt, or might have."""
        times = [self.began]
        standings = self.target.standings()
        for name, old_standing in self._running().items():
            standing = standings[name]
            trial = self.target.study / name
            if standing.attempt > old_standing.attempt or not self._must_lose():
                times.append(first_report(trial, self.since) or finished_at(trial))
        return max(times)


def check_end(target: Target, allowed_ends: list[End]) -> None:
    """The sweep ended in one of these ways: its exit code, and one line. Raises AssertionError."""
    output = target.output.read_text("utf-8")
    evidence = f"exit code {target.code}, see {target.output}:\n{output[-2000:]}"
    fitting = [end for end in allowed_ends if end.code == target.code]
    assert fitting, (
        f"must be {' or '.join(str(end.code) for end in allowed_ends) or 'no end'}, but is {evidence}"
    )
    assert "Traceback" not in output, evidence
    counts = [len(re.findall(re.escape(end.line), output)) for end in fitting if end.line]
    assert not counts or 1 in counts, f"{fitting} must stand in one line: {evidence}"
