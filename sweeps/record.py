"""What a trial's workers report, written into its folder. Only the sweep's own process writes there."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from sweeps.plan import PlannedTrial, config_dict
from tracking.files import to_json, write_atomic
from tracking.provenance import collect
from tracking.trial import TrialFolder
from transformer.data.here import ONE_VOCABULARY, known_vocabulary
from transformer.data.prepare import Prepared
from transformer.messages import (
    Assignment,
    Event,
    Failed,
    Finished,
    Judged,
    Lost,
    Report,
    Resumed,
    Started,
    Stopped,
)
from transformer.schema import Problem, RefusedError


@contextmanager
def holding(
    folder: TrialFolder, key: str = "sweep.name", allowed: str = "wait for it, or give this study another name"
) -> Iterator[None]:
    """No other process writes the trial's folder meanwhile; the lock goes with this process, however it ends.

    Raises RefusedError, in these words, if another process holds it.
    """
    lock = FileLock(folder.path.parent / ".locks" / folder.path.name, timeout=0)
    Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
    try:
        held = lock.acquire()
    except Timeout:
        found = f"{folder.path.name} is being run by another process"
        raise RefusedError([Problem(key, found, allowed)]) from None
    with held:
        yield


class Recorder:
    """One trial's folder over its attempts, which are counted here alone.

    ``attempt`` is the number of the one that runs or comes next, the only one whose events count.
    """

    def __init__(self, planned: PlannedTrial) -> None:
        self.planned, self.folder = planned, planned.folder
        self.vocabulary = known_vocabulary(Path(planned.settings.paths.data), planned.fingerprint)
        self.began = False  # whether ``attempt`` is written down
        self.founded = False  # whether it is known from which step it resumed
        self.lost: Lost | None = None  # what ended it, where its own process could still say so
        self.attempt = 1 + max((attempt.number for attempt in self.folder.attempts()), default=0)

    def assignment(self) -> Assignment:
        """What the workers of the attempt are told."""
        settings = self.planned.settings
        return Assignment(
            settings.trial,
            self.attempt,
            settings.paths.data,
            self.planned.fingerprint,
            self.planned.checkpoints,
            self.planned.trial.key,
            settings.cluster.cpus_per_worker,
            settings.cluster.tokens_per_pass,
            self.vocabulary,
            self.judged(),
        )

    def judged(self) -> dict[str, dict[str, Any]]:
        """Scores by set of an attempt that ended while it judged, unless they are of other settings."""
        settings = self.planned.settings
        end = (self.planned.trial.key, settings.train.steps, vars(settings.decode))
        heads = self.folder.judged().items()
        return {
            name: head["scores"] for name, head in heads if (head["key"], head["step"], head["scores"]["decode"]) == end
        }

    def begin(self) -> None:
        """Write down that the attempt begins, before it does."""
        write_atomic(self.folder.config_path, _yaml(config_dict(self.planned)))
        self.folder.begin_attempt(self.attempt, socket.gethostname(), os.getpid())
        self.began = True

    def give_up(self, cause: str) -> None:
        """The attempt lost a worker, maybe before it began: count on."""
        if not self.began:
            self.begin()
        self.end(f"worker lost: {cause}")
        self.attempt += 1
        self.began = self.founded = False
        self.lost = None

    def take(self, attempt: int, event: Event) -> bool:
        """Write down one event; False if it comes from an attempt that was given up.

        Raises RuntimeError if it comes from one that never began: its whole work would be lost.
        """
        if attempt < self.attempt:
            return False
        if attempt > self.attempt or not self.began:
            name = self.planned.trial.name
            raise RuntimeError(f"{name}: attempt {attempt} reports, but attempt {self.attempt} was expected")
        match event:
            case Started(device):
                content = collect(device, self.planned.fingerprint) | {"vocabulary": self.vocabulary}
                write_atomic(self.folder.provenance_path, to_json(content) + "\n")
            case Resumed(step, reports):
                self._found(step, reports)
            case Report(step, metrics, ts):
                self._found(0)  # no checkpoint was found: what an earlier attempt reported is not its history
                self.folder.report(attempt, step, metrics, ts, fsync="checkpoint" in metrics)
            case Stopped():
                self.end("interrupted")
            case Judged():
                self._keep(event)
            case Finished():
                self._finish(event)
            case Failed(cause, details):
                self.fail(cause, details)
            case Lost():
                self.lost = event  # Tune starts the next attempt, or says that there is none
        return True

    def _found(self, step: int, reports: tuple[Report, ...] = ()) -> None:
        """The attempt resumed from this step: from now on the journal holds what was reported up to it."""
        if not self.founded:
            self.folder.restore(self.attempt, step, [(report.ts, report.step, report.metrics) for report in reports])
            self.founded = True

    def fail(self, cause: str, details: str = "") -> None:
        """The trial is given up: say why, the cause in the first line."""
        self.folder.write_error(f"{cause}\n\n{details.strip()}\n" if details else f"{cause}\n")
        self.end(f"failed: {cause}")

    def end(self, reason: str) -> None:
        """Note the end of the attempt, unless it never began or has ended."""
        if any(a.number == self.attempt and a.ended is None for a in self.folder.attempts()):
            self.folder.end_attempt(self.attempt, reason)

    def _keep(self, event: Judged) -> None:
        self.folder.write_hypotheses(event.set_name, event.hypotheses)
        head = {"key": self.planned.trial.key, "step": event.step, "scores": event.scores}
        self.folder.write_statistics(event.set_name, head, event.statistics)

    def _finish(self, event: Finished) -> None:
        trial, before = self.planned.trial, self.folder.result()
        head = {"key": trial.key, "row": trial.row, "seed": trial.seed, "step": event.step, "attempt": self.attempt}
        scores = _still_true(before, trial.key, event) | event.scores
        self.folder.write_result({**head, **event.costs, "scores": scores})
        self.end("finished")


def check_vocabulary(prepared: Prepared, folder: TrialFolder) -> list[Problem]:
    """That a trial began with another vocabulary of the same text: its pieces would mean something else.

    Raises DamagedFileError if the file that says so is damaged.
    """
    if folder.provenance().get("vocabulary") in (None, "", prepared.vocabulary_sha256):
        return []
    found = f"{folder.path.name} was trained with another vocabulary of the same text"
    return [Problem("paths.data", found, ONE_VOCABULARY, None, str(prepared.folder))]


def _still_true(before: dict[str, Any] | None, key: str, event: Finished) -> dict[str, Any]:
    """Scores of further sets that an earlier result has of the same model, decoded as this one: none are mixed."""
    if before is None or (before["key"], before["step"]) != (key, event.step):
        return {}
    decodes = [scores["decode"] for scores in event.scores.values()]
    return {name: scores for name, scores in before["scores"].items() if scores["decode"] in decodes}


def _yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
