"""The trials that run now, on any machine, as one pass sees them."""

from collections.abc import Sequence

from tracking.activity.runners import Runner, runs
from tracking.attempts import AttemptRecord


class RunningTrials:
    """``keys``: those of the running trials among the ones that the pass has looked at.

    ``ended`` is the pid of a process on this machine that no longer runs trials, though it may
    still be alive.
    """

    def __init__(self, runners: Sequence[Runner], ended: int | None) -> None:
        self.keys: set[str] = set()
        self._runners = runners
        self._ended = ended

    def look_at(self, key: str, newest: AttemptRecord) -> None:
        """Add the trial with this key if its ``newest`` attempt runs."""
        if runs(newest, self._runners) and not self.has_ended(newest):
            self.keys.add(key)

    def has_ended(self, attempt: AttemptRecord) -> bool:
        """Whether the process of the attempt is the one that no longer runs trials."""
        return attempt.process.is_here and attempt.process.pid == self._ended
