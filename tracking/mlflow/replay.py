"""Makes the runs of a store equal to a study's folder: each point once, and no point that could be
rolled back.

What a run must hold follows from the folder. The first pass and the last one compare it with what
the store has, value by value; the passes in between with what the ledger says was sent. What
differs is sent.

A retry cuts a journal back to a checkpoint, and a store cannot delete a point. So an unfinished
trial is replayed only up to its newest checkpoint, and a trial that was trained anew gets a new
run. Runs that no trial has are left out of the study: deleted, as MLflow deletes, until their trial
comes back. Parts that a store may refuse come last.
"""

import hashlib
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracking.activity.look import Stamps, stamps_of
from tracking.activity.runners import Runner, runners, runs
from tracking.attempts import AttemptRecord
from tracking.error_causes import cause_of, out_of_reach
from tracking.files import DamagedFileError
from tracking.json_lines.journal import Journal, settled
from tracking.mlflow import pages
from tracking.mlflow.describe import Described, base_of, journal_points, to_ms
from tracking.mlflow.inputs import inputs_digest
from tracking.mlflow.ledger import (
    EXPERIMENT,
    IDENTITY,
    INPUTS,
    PLACE,
    STUDY,
    UNLIKE,
    Ledger,
    Sent,
    carried,
    place_of,
    refuse_other_place,
    result_digest,
)
from tracking.mlflow.names import legal
from tracking.mlflow.runs import CARRIED, LEFT_OUT, TRAINING, StoredRun, doubles, run_of
from tracking.mlflow.store import Status, Store
from tracking.study import STUDY_FILE, Study, StudyTrial, read_study
from tracking.table.columns import whole_table
from tracking.trial import TrialState
from tracking.weights import TO_SCORE_AGAIN

RETRY_S = 60.0  # between two tries to store artifacts, and between two versions of the study's page
STATUS: dict[TrialState, Status] = {
    "finished": "FINISHED",
    "failed": "FAILED",
    "running": "RUNNING",
}


@dataclass(frozen=True)
class PassOutcome:
    """The outcome of one pass: runs visited, points sent, problems by trial, notices and remarks to
    print.

    ``notices`` say what is missing in the store, ``remarks`` what a reader of it should know.
    ``lasting``: only a person can solve the problems, so another pass would fail again.
    """

    runs: int
    points: int
    problems: tuple[str, ...]
    notices: tuple[str, ...] = ()
    lasting: bool = False
    remarks: tuple[str, ...] = ()


class Replay:
    """Sends one study to one store. Only one may run at a time: `sync` holds a lock."""

    def __init__(self, folder: Path, store: Store, uri: str) -> None:
        self._place = ""  # of the folder that has sent the runs
        self._folder = folder
        self._store = store
        self._uri = uri
        self._ledger = Ledger(folder, uri, begin_again=True)
        self._runs: dict[str, str] = {}  # trial key, or STUDY -> the id of its run
        self._stored: dict[str, list[StoredRun]] = {}  # by key, as this pass has found them
        self._held: dict[str, StoredRun] = {}  # the same by id
        self._lost = (
            True  # whether the runs are to be found again: after a failure, and in the last pass
        )
        self._trainings: dict[str, str] = {}  # by trial key: whose run it has
        self._stamps: dict[str, Stamps] = {}  # by trial key: its files in this pass
        self._record: object = None  # the stamp of `study.json`
        self._inputs: tuple[object, str] = (
            None,
            "",
        )  # stamps, and the digest of the files that have them
        self._seen: dict[
            str, tuple[object, object]
        ] = {}  # by trial key: its files when they were last sent
        self._due: set[str] = set()  # keys of the runs whose artifacts are to be sent
        self._logged: set[str] = set()  # names of metrics while training
        self._changed_names: dict[
            str, str
        ] = {}  # the task's names that are others in MLflow, with those
        self._remarks: list[str] = []
        self._runners: list[Runner] = []
        self._running: set[str] = set()  # keys of the trials that run now, on any machine
        self._ended: int | None = None  # the pid of a process that runs none of them any more
        self._page_due = 0.0
        self._retry_due = 0.0
        self._complaint = ""

    def once(self, ended: int | None = None) -> PassOutcome:
        """Replay every trial that has begun. A trial that fails does not hold back the others.

        ``ended`` is the pid of a process of this machine that runs no trial any more, though it may
        still be alive. A store that does not answer ends the pass: every further trial would wait
        as long.
        """
        record = self._record_stamp()
        study = read_study(self._folder)
        inputs = self._look(study, record)
        self._runners, self._running, self._ended, self._remarks = (
            runners(self._folder),
            set(),
            ended,
            [],
        )
        if self._lost or ended is not None or record != self._record:
            self._find(study)
            self._record = record
        sent, faults = self._replay_all(study)
        notices: tuple[str, ...] = ()
        if all(
            isinstance(error, DamagedFileError) for _, error in faults
        ):  # a server out of reach would fail again
            try:
                self._leave_out_others(study, {name for name, _ in faults})
                notices = self._show(study, any(sent))
            except Exception as error:  # as for a trial
                faults.append(("pages", error))
        self._lost = bool(faults)
        self._stored = {}
        self._held = {}
        if (
            not (faults or notices or self._due)
            and STUDY in self._runs
            and self._record_stamp() == record
        ):
            self._put_part(STUDY, INPUTS, inputs)
        lasting = bool(faults) and all(isinstance(error, DamagedFileError) for _, error in faults)
        return PassOutcome(
            len(sent), sum(sent), _problems(faults), notices, lasting, tuple(self._remarks)
        )

    def _replay_all(self, study: Study) -> tuple[list[int], list[tuple[str, Exception]]]:
        """How many points each trial that has begun has sent, and what went wrong by trial."""
        sent: list[int] = []
        faults: list[tuple[str, Exception]] = []
        for trial in study.trials:
            try:
                sent += self._replay_changes(study, trial)
            except (
                Exception
            ) as error:  # a broken file, or a server out of reach: reported and retried
                faults.append((trial.name, error))
                if out_of_reach(error):
                    break
        return sent, faults

    def _record_stamp(self) -> object:
        stat = (self._folder / STUDY_FILE).stat()
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    def _look(self, study: Study, record: object) -> str:
        """Look at all files; returns the digest of those that decide the runs. They are read only
        if any changed."""
        self._stamps = {trial.key: stamps_of(study.trial_folder(trial)) for trial in study.trials}
        settled = [stamps[:-1] for stamps in self._stamps.values()]
        now = (record, settled)
        if self._inputs[0] != now:
            self._inputs = (now, inputs_digest(study))
        return self._inputs[1]

    def _find(self, study: Study) -> None:
        """The study's runs by their tags, with what they hold. What was sent to another run is sent
        again.

        Raises OtherPlaceError if another folder has sent them, and this one would change them.
        """
        self._stored = self._store.runs(study.mark)
        active = {
            key: [run for run in every if run.is_active] for key, every in self._stored.items()
        }
        tags = {key: every[0].tags for key, every in active.items() if every}
        self._place = tags.get(STUDY, {}).get(PLACE, "")
        refuse_other_place(study, self._uri, self._place, tags)
        self._held = {run.id: run for every in active.values() for run in every}
        self._runs = {key: run for key, run in self._runs.items() if run in self._held}
        if of_study := active.get(STUDY):
            self._runs[STUDY] = of_study[0].id
        self._seen = {key: seen for key, seen in self._seen.items() if key in self._runs}
        self._lost = False

    def _leave_out_others(self, study: Study, faulty: Collection[str]) -> None:
        """The runs that were found and belong to no trial: of dropped trials, of earlier trainings,
        and doubles."""
        names = {trial.key: trial.name for trial in study.trials}
        for key, stored in self._stored.items():
            if names.get(key) in faulty:
                continue
            why = "trained anew" if key in names else "dropped from the study"
            for run in doubles(stored, self._runs.get(key)):
                self._store.leave_out(run, why)
        for key in self._ledger.keys:
            if key != STUDY and key not in names:
                self._ledger.forget(key)
                self._due.add(STUDY)

    def _replay_changes(self, study: Study, trial: StudyTrial) -> list[int]:
        """How many points were sent; [] before the trial has started."""
        attempts = study.trial_folder(trial).attempts.all()
        if not attempts:
            return []
        running = runs(attempts[-1], self._runners) and not self._has_ended(attempts[-1])
        self._running |= {trial.key} if running else set()
        *settled, grown = self._stamps[trial.key]
        others = [*base_of(study), *filter(None, [study.host(trial)])]
        compared = [self._stamps[other.key][:-1] for other in others]
        looks = ((settled, compared, running, self._record), grown)
        seen = self._seen.get(trial.key)
        if seen == looks:
            return [0]
        points = self._replay(study, Described(study, trial, attempts))
        if seen is None or seen[0] != looks[0]:
            self._due |= {trial.key, STUDY}
        self._seen[trial.key] = looks
        return [points]

    def _has_ended(self, attempt: AttemptRecord) -> bool:
        return attempt.process.is_here and attempt.process.pid == self._ended

    def _replay(self, study: Study, about: Described) -> int:
        key = about.trial.key
        folder = about.folder
        state = study.standing(about.trial).state
        state = (
            "interrupted" if state == "running" and self._has_ended(about.attempts[-1]) else state
        )
        has_result = state in ("finished", TO_SCORE_AGAIN)
        sendable = settled(Journal(folder.journal_path), everything=has_result)
        reports = about.journal  # read after these: what can be sent is whole here
        run = self._run_of_training(study, about)
        parts = {"params": about.params, "tags": about.tags, "datasets": about.datasets}
        self._send(key, parts)
        self._say_unlike(about)
        self._changed_names |= about.changed_names
        sent_step = self._sent(key).step
        new = [report for report in reports[:sendable] if report.step > sent_step]
        points = [point for report in new for point in journal_points(about.card, report)]
        self._store.log_points(run, points)
        if new:
            self._ledger.put(key, replace(self._sent(key), step=new[-1].step))
        self._logged |= {name for report in reports for name in pages.points_in(about.card, report)}
        result = result_digest(folder) if has_result and key not in self._running else None
        self._send(
            key, {"tags of the journal": {CARRIED: carried(self._sent(key).step, reports, result)}}
        )
        if (
            key in self._running
        ):  # its result may exist before the attempt's end, which gives the time
            self._store.set_status(run, "RUNNING", None)
            return len(points)
        numbers = 0
        if has_result:  # scores of other weights are no longer among the numbers
            numbers = self._send(key, {"numbers": about.numbers})
            self._ledger.put(key, replace(self._sent(key), result=result))
        status = STATUS.get(state, "KILLED")
        newest = reports[-1] if reports else None
        self._store.set_status(run, status, None if status == "RUNNING" else about.end_ms(newest))
        return len(points) + numbers

    def _run_of_training(self, study: Study, about: Described) -> str:
        """The run of this training: that which has its points, one that was left out, or a new
        one."""
        key = about.trial.key
        training = about.found_by[TRAINING]
        if self._trainings.get(key, training) != training:
            self._runs.pop(key, None)
            self._find(study)
        self._trainings[key] = training
        if key not in self._runs:
            stored = run_of(self._stored.get(key, ()), training, about.journal)
            if stored is not None and LEFT_OUT in stored.tags:
                self._store.take_back(stored)
                self._due |= {key, STUDY}
            start_ms = to_ms(about.attempts[0].began)
            self._runs[key] = (
                stored.id if stored else self._store.create(about.name, start_ms, about.found_by)
            )
            self._hold(key, stored)
        return self._runs[key]

    def _hold(self, key: str, stored: StoredRun | None) -> None:
        """Begin with what the run has: nothing, if it is a new one."""
        run = self._runs[key]
        before = self._ledger.get(key)
        sent = before if before is not None and before.run == run else None
        if stored is None:
            sent = Sent(run)
        elif sent is None:
            sent = Sent(run, stored.carried_step)
        else:
            sent = replace(sent, step=min(sent.step, stored.carried_step))
        if not sent.parts:
            self._due.add(key)
        self._ledger.put(key, sent)

    def _sent(self, key: str) -> Sent:
        """What its run has: nothing, if it is another one than before."""
        sent = self._ledger.get(key)
        run = self._runs[key]
        return sent if sent is not None and sent.run == run else Sent(run)

    def _send(self, key: str, parts: Mapping[str, Any]) -> int:
        """Send the parts that the run lacks; returns how many points were new."""
        sent = self._sent(key)
        count = 0
        held = self._held.get(sent.run)
        for name, content in parts.items():
            digest = _digest(content)
            is_there = held.holds(name, content) if held is not None else None
            if is_there is None:
                is_there = sent.parts.get(name) == digest
            if not is_there:
                count += self._store.send(sent.run, name, content)
            sent = replace(sent, parts=sent.parts | {name: digest})
        self._ledger.put(key, sent)
        return count

    def _put_part(self, key: str, name: str, content: str) -> None:
        """Keep a fact of the run that is not sent; "" removes it."""
        sent = self._sent(key)
        parts = {part: value for part, value in sent.parts.items() if part != name}
        self._ledger.put(key, replace(sent, parts=parts | ({name: content} if content else {})))

    def _say_unlike(self, about: Described) -> None:
        """Say which params differ from the configuration: MLflow never changes one."""
        key = about.trial.key
        held = self._held.get(self._runs[key])
        sent = self._sent(key)
        if held is None:
            return
        unlike = ", ".join(held.unlike_params(about.params))
        if unlike and unlike != sent.parts.get(UNLIKE, ""):
            self._remarks.append(
                f"{about.trial.name}: MLflow cannot change params; old values stay: {unlike}"
            )
        self._put_part(key, UNLIKE, unlike)

    def _show(self, study: Study, changed: bool) -> tuple[str, ...]:
        """Send the study's run, its view, and what a store may refuse. Returns notices.

        Once this folder has ``changed`` the runs, they belong to it.
        """
        begun = [trial for trial in study.trials if trial.key in self._seen]
        self._due &= {STUDY, *(trial.key for trial in study.trials)}
        if not begun:
            return ()
        self._place = (
            place_of(self._folder, self._uri) if changed or not self._place else self._place
        )
        # last in the view, since it has no texts to stand side by side
        tags = {
            IDENTITY: study.mark,
            "sweep.id": study.name,
            "kind": STUDY,
            f"{study.task.tags}.order": "9999",
        }
        tags |= {PLACE: self._place}
        self._runs.setdefault(STUDY, "")
        if not self._runs[STUDY]:
            self._runs[STUDY] = self._store.create("study", pages.first_asked_ms(study), tags)
        run = self._runs[STUDY]
        own = self._store.owner == study.mark  # several studies may share one
        view = pages.view_tag(study, sorted(self._logged)) | (pages.KIND if own else {})
        self._send(STUDY, {"tags": tags, "view": view})
        self._say_names()
        sent = self._sent(STUDY)
        experiment = {EXPERIMENT: self._store.experiment_id}
        if not sent.parts.items() >= experiment.items():
            self._store.set_status(run, "FINISHED", pages.first_asked_ms(study))
            self._ledger.put(STUDY, replace(sent, parts=sent.parts | experiment))
        return self._artifacts(study, begun)

    def _say_names(self) -> None:
        """Say once which names are others in MLflow; the tags of each run have them."""
        digest = _digest(self._changed_names) if self._changed_names else ""
        if digest and self._sent(STUDY).parts.get("names") != digest:
            pairs = [
                f"{name} is {in_mlflow}" for name, in_mlflow in sorted(self._changed_names.items())
            ]
            self._remarks.append(f"MLflow has other names for some: {_some(pairs, '; ')}")
            self._put_part(STUDY, "names", digest)

    def _artifacts(self, study: Study, begun: list[StudyTrial]) -> tuple[str, ...]:
        """A store may refuse them: one notice, and the next try after a pause."""
        if time.monotonic() < self._retry_due and self._running:
            return ()
        try:
            for trial in begun:
                if trial.key in self._due:
                    self._page(study, trial)
            if STUDY in self._due and not (self._running and time.monotonic() < self._page_due):
                self._study_page(study, begun)
        except Exception as error:  # every kind of store raises its own
            self._retry_due = time.monotonic() + RETRY_S
            complaint = self._complaint
            self._complaint = cause_of(error)
            if complaint == self._complaint:
                return ()
            return (
                f"artifacts are not stored: {self._complaint}; fix that, then run `allelse sync`",
            )
        self._complaint = ""
        return ()

    def _page(self, study: Study, trial: StudyTrial) -> None:
        """A trial's artifacts."""
        folder = study.trial_folder(trial)
        lives = trial.key in self._running
        files = pages.run_files(folder, lives)
        model = {} if lives else Described(study, trial, folder.attempts.all()).model
        tables = {"mlflow.loggedArtifacts": pages.TABLES if pages.SAMPLES in files else ""}
        self._send(trial.key, {**_files(files), "tags of files": tables, "model": model})
        self._due.discard(trial.key)

    def _study_page(self, study: Study, begun: list[StudyTrial]) -> None:
        """The tags of rows and the study's files; while trials run, once per minute: they take
        seconds to make."""
        table = whole_table(study, study.task.headline)
        words = pages.row_words(table)
        for trial in begun:
            tags = {f"{pages.ROW}{legal(name)}": text for name, text in words[trial.row].items()}
            self._send(trial.key, {"tags of the row": tags})
        self._send(STUDY, _files(pages.study_files(table)))
        self._due.discard(STUDY)
        self._page_due = time.monotonic() + RETRY_S


def _files(files: Mapping[str, str]) -> dict[str, str]:
    return {f"file {path}": content for path, content in files.items()}


def _problems(faults: list[tuple[str, Exception]]) -> tuple[str, ...]:
    """One line per cause, with the trials that have it."""
    names = dict[str, list[str]]()
    for name, error in faults:
        names.setdefault(cause_of(error), []).append(name)
    return tuple(f"{_some(of)}: {cause}" for cause, of in names.items())


def _some(names: list[str], between: str = ", ") -> str:
    return between.join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
