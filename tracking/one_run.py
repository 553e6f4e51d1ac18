"""One run per trial, although the answer to its creation may get lost.

A server that hangs answers a creation too late, or never, and may still carry it out afterwards. So a creation is
noted before it is asked for. Until its answer arrives, the next try searches first. Once the trial has ended, runs
that a lost answer left behind are removed.
"""

from tracking.ledger import Ledger
from tracking.tracker import RunSpec, Tracker

ASKED = "asked "  # start of the keys of such notes, in `mlflow-sent.json`


class OneRun:
    """Opens and creates runs; `sent` keeps the notes."""

    def __init__(self, tracker: Tracker, sent: Ledger) -> None:
        self._tracker, self._sent = tracker, sent

    def open(self, key: str, spec: RunSpec, known: str | None) -> str:
        """The id of the run: `known` if it still exists; otherwise the run with the same tags, or a new one."""
        found = self._tracker.find_run(spec, known)
        if found is not None:
            return found
        doubtful = self._is_doubtful(key)
        self._sent.keep(ASKED + key, "", {})
        made = self._tracker.create_run(spec)
        if not doubtful:
            self._sent.drop(ASKED + key)
        return made

    def settle(self, key: str, spec: RunSpec, run_id: str) -> None:
        """Remove what a lost answer left behind. To be called when the run gets no more points."""
        if self._is_doubtful(key):
            self._tracker.remove_doubles(spec, run_id)
            self._sent.drop(ASKED + key)

    def _is_doubtful(self, key: str) -> bool:
        return self._sent.get(ASKED + key) is not None
