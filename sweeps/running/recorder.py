"""Records the events of a trial's workers in its folder. Only the process of the sweep writes
there."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any, TypeVar

import yaml

from sweeps.planning.planned_trial import PlannedTrial, config_dict
from sweeps.preflight.scored_steps import step_problem
from sweeps.processes.storage import patiently
from sweeps.running.trial_result import trial_result
from sweeps.worker.events import (
    About,
    Assignment,
    Evaluated,
    Event,
    Failed,
    Finished,
    Head,
    HostWeights,
    Lost,
    Noticed,
    Printed,
    Report,
    Resumed,
    Started,
    Stopped,
)
from tracking.activity.log import append_log, marked, utc
from tracking.attempts import Lineage, own_process
from tracking.files import DamagedFileError, to_json, unless_lost, write_atomic
from tracking.json_lines.journal import restore_journal
from tracking.provenance import Provenance, attempts, with_attempt, with_scoring
from tracking.study import STUDY_FILE
from tracking.trial import TrialFolder
from tracking.weights import (
    WeightsRecord,
    is_head_of,
    weights_of,
    weights_record,
)

T = TypeVar("T")
LINEAGE_DIGITS = 12  # of a random name, in a path
WITHOUT_WEIGHTS = (
    "{host} no longer has a result, so there are no weights to score; run the same command again"
)
REMOVED = "its folder was removed; the same command trains it again"


class RemovedError(BaseException):
    """A person removed the folder of a running trial. It ends; other trials continue.

    No Exception: the trial's own code could take it for one of its errors.
    """


class WithoutWeightsError(Exception):
    """The trial that a scoring trial waits for has no weights by now, in one line."""


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
        self.origin = dict(origin or {})  # what holds for all attempts of this sweep
        self.codes = codes  # the hashes of all code that the study has been trained with
        self.planned = planned
        self.folder = planned.folder
        self.prepared_as = planned.data.identity()
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
        self._weights = self._host_weights()
        trial = self.planned.trial
        settings = self.planned.settings
        return Assignment(
            task=settings.source.name,
            folder=settings.source.folder,
            config=asdict(settings.config),
            seed=trial.seed,
            attempt=self.attempt,
            data_folder=settings.paths.data,
            data_fingerprint=self.planned.fingerprint,
            checkpoints=self.planned.checkpoints,
            key=trial.key,
            threads=settings.cluster.cpus_per_worker,
            gpus=settings.cluster.gpus_per_worker,
            prepared_as=self.prepared_as,
            evaluated=self.evaluated(),
            run=self.run,
            trial=trial.name,
            lineage=self.lineage(),
            code=self.planned.code,
            study_folder=str(self.folder.path.parent),
            sustained_tflops=settings.cluster.sustained_tflops,
            weights=self._weights,
            kept_steps=self.planned.kept_steps,
            ended=self._ended(),
        )

    def _host_weights(self) -> HostWeights | None:
        """The weights that the trial only scores; None if it trains its own. Raises
        WithoutWeightsError, UnreadableError."""
        host = self.planned.host
        if host is None:
            return None
        # a result that can't be read now isn't gone
        result = unless_lost(host.folder.result, None)
        if result is None or result["key"] != host.trial.key:
            raise WithoutWeightsError(WITHOUT_WEIGHTS.format(host=host.name))
        return HostWeights(
            trial=host.name,
            checkpoints=host.checkpoints,
            key=host.trial.key,
            step=result["step"],
            attempt=result["attempt"],
            lineage=host.folder.lineage(self.codes) or Lineage(),
            record=weights_of(result),
        )

    def fault_of_weights(self) -> str:
        """Why the weights of the finished host cannot be scored, as words after the trial's name;
        "" if they can."""
        problem = step_problem(self.planned)
        return problem.found if problem else ""

    def _ended(self) -> int | None:
        """The step at which the trial's own training ended early, if it is only scored again."""
        result = self.planned.result
        if self.planned.host is not None or result is None or result.get("diverged") is not None:
            return None
        ended_early = 0 < result["step"] < self.planned.steps
        return result["step"] if ended_early else None

    def lineage(self) -> Lineage:
        """The trial's lineage with this attempt. All attempts of this sweep share a run."""
        earlier = self.folder.attempts.all()
        runs = {attempt.number: attempt.run for attempt in earlier} | {self.attempt: self.run}
        return Lineage(self._before.name, runs, self.codes)

    def evaluated(self) -> dict[str, Head]:
        """By set, the heads of scores from ended attempts, if the settings are the same.

        A head counts only for the weights of the attempt that it names.
        """
        key = self.planned.trial.key
        weights = self._weights
        if weights is None:
            last = self._ended() or self.planned.steps
            return self.folder.scored_heads(key, last, self.planned.scoring)
        heads = self.folder.scored_heads(key, weights.step, self.planned.scoring)
        return {
            set_name: head for set_name, head in heads.items() if is_head_of(weights.record, head)
        }

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
            case Started(device, hosts, process):
                self._record_origin(self._record(device, hosts, process))
            case Resumed(step, reports, trained_by_attempt):
                self._record_origin({"from": step, "of": trained_by_attempt})
                self._restore(step, reports)
                self._log(f"--- resumed at step {step}\n")
            case Noticed(text=text):
                self._log(f"--- {text}\n")
            case About(entries):
                self._record_origin(entries)
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
                self._record_scoring(set_name)
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

    def _record(self, device: str, hosts: tuple[str, ...], process: Provenance) -> Provenance:
        """Where the attempt runs, and what it runs."""
        source = self.planned.settings.source
        return {
            "commit": None,
            **self.origin,
            **process,
            **({"host": hosts[0]} if hosts else {}),
            "hosts": sorted({*hosts}) or [process.get("host")],
            "device": device,
            "threads": self.planned.settings.cluster.cpus_per_worker,
            "gpus_per_worker": self.planned.settings.cluster.gpus_per_worker,
            "data_fingerprint": self.planned.fingerprint,
            "data_identity": self.prepared_as,
            "task": {
                "name": source.task.name,
                "version": source.task.version,
                "source": source.name,
            },
        }

    def _record_origin(self, entries: Provenance) -> None:
        """Add these to the record of this attempt."""
        begun_after = self._weights.step if self._weights else 0
        start = {"attempt": self.attempt, "from": begun_after, "steps": self.planned.steps}
        record = start | self._own_record() | entries
        self._write_provenance({"commit": None} | with_attempt(self.folder.provenance(), record))

    def _write_provenance(self, content: Provenance) -> None:
        write_atomic(self.folder.provenance_path, to_json(content) + "\n")

    def _own_record(self) -> Provenance:
        """The provenance of this attempt so far; {} if it has none."""
        for record in attempts(self.folder.provenance()):
            if record.get("attempt") == self.attempt:
                return record
        return {}

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

    def _record_scoring(self, set_name: str) -> None:
        """Record what scored this set, which may happen long after training."""
        provenance = self.folder.provenance()
        self._write_provenance(with_scoring(provenance, self._own_record(), set_name))


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
