"""Records the events of a trial's workers in its folder. Only the process of the sweep writes
there."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import yaml

from sweeps.planning.planned_trial import PlannedTrial, config_dict
from sweeps.preflight.scored_steps import step_problem
from sweeps.processes.events import (
    About,
    Assignment,
    Evaluated,
    Event,
    Failed,
    Finished,
    HostWeights,
    Lost,
    Noticed,
    Printed,
    Report,
    Resumed,
    Started,
    Stopped,
)
from sweeps.processes.storage import patiently
from sweeps.running.recording.assignment import assignment_of, host_weights
from sweeps.running.recording.provenance import ProvenanceFile
from sweeps.running.recording.trial_result import trial_result
from tracking.activity.log import append_log, marked, utc
from tracking.attempts import Lineage, own_process
from tracking.files import DamagedFileError, write_atomic
from tracking.json_lines.journal import restore_journal
from tracking.provenance import Provenance
from tracking.study import STUDY_FILE
from tracking.trial import TrialFolder
from tracking.weights import WeightsRecord, weights_record

T = TypeVar("T")
LINEAGE_DIGITS = 12  # of a random name, in a path
REMOVED = "its folder was removed; the same command trains it again"


class RemovedError(BaseException):
    """A person removed the folder of a running trial. It ends; other trials continue.

    No Exception: the trial's own code could take it for one of its errors.
    """


class UnrecordedError(BaseException):
    """The study could not be written. What is not recorded would be lost, so the sweep ends.

    No Exception: Tune would make a text of it, and a trial a failure of its own.
    """

    def __init__(self, error: OSError) -> None:
        self.error = error


class Recorder:
    """One trial's folder across its attempts. Nothing counts attempts except this class.

    ``attempt`` is the number of the current or next attempt. Events of earlier attempts are
    dropped.
    """

    def __init__(
        self,
        planned: PlannedTrial,
        origin: Mapping[str, Any] | None = None,
        codes: Sequence[str] = (),
    ) -> None:
        self.codes = codes  # the hashes of all code that the study has been trained with
        self.planned = planned
        self.folder = planned.folder
        self.prepared_as = planned.data.identity()
        self.provenance = ProvenanceFile(planned, origin or {}, self.prepared_as)
        self.began = False  # whether ``attempt`` is on disk
        self.restored = False  # whether the journal ends at the step that the attempt started from
        self.run = uuid.uuid4().hex
        self.process = own_process()
        self.stopped = False  # as requested
        self.lost: Lost | None = None  # why it ended, if its own process could still report that
        self.attempt = 1 + max(
            (attempt.number for attempt in self.folder.attempts.all()), default=0
        )
        self._weights: HostWeights | None = None  # that the current attempt only scores
        self._before = self.folder.lineage() or Lineage(uuid.uuid4().hex[:LINEAGE_DIGITS])

    def assignment(self) -> Assignment:
        """The attempt as its workers receive it. Raises WithoutWeightsError."""
        self._weights = host_weights(self.planned.host, self.codes)
        return assignment_of(
            self.planned,
            self.attempt,
            self.run,
            self.lineage(),
            self._weights,
            self.prepared_as,
        )

    def fault_of_weights(self) -> str:
        """Why the weights of the finished host cannot be scored, as words after the trial's name;
        "" if they can."""
        problem = step_problem(self.planned)
        return problem.found if problem else ""

    def lineage(self) -> Lineage:
        """The trial's lineage with this attempt. All attempts of this sweep share a run."""
        earlier = self.folder.attempts.all()
        runs = {attempt.number: attempt.run for attempt in earlier} | {self.attempt: self.run}
        return Lineage(self._before.name, runs, self.codes)

    def begin(self) -> None:
        """Record the start of the attempt before it starts. Raises OSError if the record of earlier
        ones is gone."""
        if self.attempt > 1:
            # an unmounted folder may be writable
            self.folder.attempts.check_begun(self.attempt - 1)
        write_config(self.planned)
        self.folder.begin_attempt(self.attempt, self.process, self._before.name, self.run)
        self._log(f"--- attempt {self.attempt}, {utc()}, started from {self.process.host}\n")
        self.began = True

    def give_up(self, cause: str, details: str = "") -> None:
        """The attempt lost a worker: record its end and count the next one."""
        if details:
            self.folder.write_loss(self.attempt, f"{cause}\n\n{details.strip()}\n")
        self.end(f"worker lost: {cause}")
        self.attempt += 1
        self.began = False
        self.restored = False
        self.lost = None

    def take(self, attempt: int, event: Event) -> bool:
        """Record one event; False if its attempt was given up.

        Raises RuntimeError if its attempt never began: all work of that attempt would be lost.
        Raises OSError if the folder cannot be written, or is gone.
        """
        if attempt < self.attempt:
            return False
        if attempt > self.attempt or not self.began:
            name = self.planned.name
            raise RuntimeError(
                f"{name}: attempt {attempt} reports, but attempt {self.attempt} was expected"
            )
        self.folder.attempts.check_running(attempt, self.process)
        match event:
            case Started():
                self._add_provenance(self.provenance.start(event))
            case Resumed(step, reports, trained_by_attempt):
                self._add_provenance({"from": step, "of": trained_by_attempt})
                self._restore(step, reports)
                self._log(f"--- resumed at step {step}\n")
            case Noticed(text=text):
                self._log(f"--- {text}\n")
            case About(entries):
                self._add_provenance(entries)
            case Report(step, metrics, ts, checkpoint, synced):
                # no checkpoint was found: reports of an earlier attempt are not its history
                self._restore(0)
                if not self.folder.report(attempt, step, metrics, ts, checkpoint, synced):
                    self._log(
                        "--- the journal of the finished training stays: "
                        f"no report of step {step} is added\n"
                    )
            case Stopped():
                self.stopped = True
                self.end("interrupted")
            case Evaluated(step, set_name, _, artifacts):
                self.provenance.add_scoring(attempt, set_name)
                for name, text in artifacts.items():
                    self.folder.write_artifact(name, text)
                self._log(f"--- scored on {set_name} after step {step}\n")
            case Finished():
                self._finish(event)
            case Failed(cause, details):
                self.fail(cause, details)
            case Printed(rank, text):
                self._log(marked(text, rank))
            case Lost():
                self.lost = event  # the queue decides whether another attempt follows
        return True

    def _add_provenance(self, entries: Provenance) -> None:
        begun_after = self._weights.step if self._weights else 0
        self.provenance.add(self.attempt, begun_after, entries)

    def patiently(self, act: Callable[[], T], say: Callable[[str], None]) -> T:
        """Call ``act``, which records, and return its result. ``say`` gets a line when storage
        fails and recovers.

        Raises RemovedError, UnrecordedError.
        """

        def unless_removed() -> T:
            if self._is_removed():
                raise RemovedError
            return act()

        try:
            return patiently(unless_removed, str(self.folder.path), say)
        except DamagedFileError as damage:  # such as a file that a server has cut
            raise UnrecordedError(
                OSError(None, f"{damage.cause}; {damage.remedy}", damage.place)
            ) from None
        except OSError as error:
            raise UnrecordedError(error) from None

    def _restore(self, step: int, reports: tuple[Report, ...] = ()) -> None:
        """Make the journal end at the step that the attempt started from, with all reports up to
        that step."""
        if not self.restored:
            history = [
                (report.ts, report.step, report.metrics, report.checkpoint) for report in reports
            ]
            restore_journal(self.folder.journal_path, self.attempt, step, history)
            self.restored = True

    def fail(self, cause: str, details: str = "") -> None:
        """Give up the trial and write its error, with the cause in the first line."""
        self.folder.write_error(f"{cause}\n\n{details.strip()}\n" if details else f"{cause}\n")
        self.end(f"failed: {cause}")

    def _is_removed(self) -> bool:
        """Whether the record of its attempts is gone from a study that is still there: a person
        removed the folder."""
        begun = self.began or self.attempt > 1
        study = self.folder.path.parent / STUDY_FILE
        return begun and not self.folder.attempts_path.exists() and study.exists()

    def end(self, reason: str) -> None:
        """Record the end of the attempt, unless it never began or already ended."""
        for attempt in self.folder.attempts.all():
            is_current = (attempt.number, attempt.process) == (self.attempt, self.process)
            if is_current and attempt.ended is None:
                self.folder.attempts.end(self.attempt, reason)
                self._log(f"--- {reason}, {utc()}\n")
                return

    def _log(self, text: str) -> None:
        """On a full disk, training continues without its log."""
        with suppress(OSError):
            append_log(self.folder.log_path, text)

    def _finish(self, event: Finished) -> None:
        weights = self._scored_weights(event)
        self.folder.write_result(trial_result(self.planned, self.attempt, event, weights))
        self.end("finished")

    def _scored_weights(self, event: Finished) -> WeightsRecord:
        """The record of the weights that were scored: those of the host, or the trial's own."""
        if self._weights is not None:
            return self._weights.record
        return weights_record(self.lineage(), event.trained_in, event.step)


def write_config(planned: PlannedTrial, folder: TrialFolder | None = None) -> None:
    """Write the trial's config.yaml into its folder, or into ``folder``, which will get its
    name."""
    text = yaml.safe_dump(config_dict(planned), sort_keys=False, allow_unicode=True)
    write_atomic((folder or planned.folder).config_path, text)


@contextmanager
def unrecorded_as_error() -> Iterator[None]:
    """Raises the OSError of an UnrecordedError, once Tune and the trial are left."""
    try:
        yield
    except UnrecordedError as unrecorded:
        raise unrecorded.error from None
