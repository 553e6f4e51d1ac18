"""Replays a study's journals into a store: each point once, and no point that could be rolled back.

A retry cuts a journal back to a checkpoint, and a store cannot delete a point. So an unfinished trial is replayed only
up to its newest checkpoint. Everything else of a run is a part, which is sent when its content changes. Parts that a
store may refuse come after all points.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracking.attempts import AttemptRecord, Runner, runners, runs
from tracking.files import DamagedFileError
from tracking.journal import Journal, unsent
from tracking.look import stamps_of
from tracking.mlflow import pages
from tracking.mlflow.describe import Described, base_of, journal_points, to_ms
from tracking.mlflow.ledger import (
    CARRIED,
    EXPERIMENT,
    IDENTITY,
    PLACE,
    STUDY,
    Ledger,
    Sent,
    carried,
    place_of,
    refuse_other_place,
    result_digest,
)
from tracking.mlflow.store import Status, Store
from tracking.study import STUDY_FILE, Study, StudyTrial, read_study
from tracking.table.columns import whole_table
from tracking.trial import TrialState
from tracking.words import cause_of, out_of_reach

RETRY_S = 60.0  # between two tries to store artifacts, and between two versions of the study's page
STATUS: dict[TrialState, Status] = {"finished": "FINISHED", "failed": "FAILED", "running": "RUNNING"}


@dataclass(frozen=True)
class PassOutcome:
    """The outcome of one pass: runs visited, points sent, problems by trial, and notices to print.

    ``lasting``: only a person can solve the problems, so another pass would fail again.
    """

    runs: int
    points: int
    problems: tuple[str, ...]
    notices: tuple[str, ...] = ()
    lasting: bool = False


class Replay:
    """Sends one study to one store. Only one may run at a time: `sync` holds a lock."""

    def __init__(self, folder: Path, store: Store, uri: str, moved: bool) -> None:
        self._moved, self._place = moved, ""  # whether the runs become this folder's; which folder has sent them
        self._folder, self._store, self._uri = folder, store, uri
        self._ledger = Ledger(folder, uri, begin_again=True)
        self._runs: dict[str, str] = {}  # trial key, or STUDY -> run id, as the store has them
        self._lost = True  # whether the runs are to be found again: after a failure, and in the last pass
        self._seen: dict[str, tuple[object, object]] = {}  # by trial key: its files when they were last sent
        self._due: set[str] = set()  # keys of the runs whose artifacts are to be sent
        self._logged: set[str] = set()  # names of metrics while training
        self._runners: list[Runner] = []
        self._running: set[str] = set()  # keys of the trials that run now, on any machine
        self._ended: int | None = None  # the pid of a process that runs none of them any more
        self._page_due, self._retry_due, self._complaint = 0.0, 0.0, ""

    def once(self, ended: int | None = None) -> PassOutcome:
        """Replay every trial that has begun. A trial that fails does not hold back the others.

        ``ended`` is the pid of a process of this machine that runs no trial any more, though it may still be alive.
        A store that does not answer ends the pass: every further trial would wait as long.
        """
        study = read_study(self._folder)
        self._runners, self._running, self._ended = runners(self._folder), set(), ended
        if self._lost or ended is not None:
            self._find(study)
        sent, faults = list[int](), list[tuple[str, Exception]]()
        for trial in study.trials:
            try:
                sent += self._replay_changes(study, trial)
            except Exception as error:  # a broken file, or a server out of reach: reported and retried
                faults.append((trial.name, error))
                if out_of_reach(error):
                    break
        notices: tuple[str, ...] = ()
        if all(isinstance(error, DamagedFileError) for _, error in faults):  # a server out of reach would fail again
            try:
                notices = self._show(study, any(sent))
            except Exception as error:  # as for a trial
                faults.append(("pages", error))
        self._lost = bool(faults)
        lasting = bool(faults) and all(isinstance(error, DamagedFileError) for _, error in faults)
        return PassOutcome(len(sent), sum(sent), _problems(faults), notices, lasting)

    def _find(self, study: Study) -> None:
        """The study's runs by their tags. What was sent to another run is sent again; empty doubles are removed.

        Raises OtherPlaceError if another folder has sent them, and this one would change them.
        """
        found = self._store.runs(study.mark)
        self._place = "" if self._moved else found.get(STUDY, ("", {}))[1].get(PLACE, "")
        refuse_other_place(study, self._uri, self._place, {key: tags for key, (_, tags) in found.items()})
        self._runs = {key: run for key, (run, _) in found.items()}
        known = {key: self._ledger.get(key) for key in self._seen}
        self._seen = {key: self._seen[key] for key, sent in known.items() if sent and sent.run == self._runs.get(key)}
        self._lost = False

    def _replay_changes(self, study: Study, trial: StudyTrial) -> list[int]:
        """How many points were sent; [] before the trial has started."""
        folder = study.trial_folder(trial)
        attempts = folder.attempts.all()
        if not attempts:
            return []
        running = runs(attempts[-1], self._runners) and not self._has_ended(attempts[-1])
        self._running |= {trial.key} if running else set()
        *settled, grown = stamps_of(folder)
        compared = [stamps_of(study.trial_folder(each))[:-1] for each in base_of(study)]
        looks = ((settled, compared, running, (self._folder / STUDY_FILE).stat().st_mtime_ns), grown)
        seen = self._seen.get(trial.key)
        if seen == looks:
            return [0]
        points = self._replay(Described(study, trial, attempts))
        if seen is None or seen[0] != looks[0]:
            self._due |= {trial.key, STUDY}
        self._seen[trial.key] = looks
        return [points]

    def _has_ended(self, attempt: AttemptRecord) -> bool:
        return attempt.process.is_here and attempt.process.pid == self._ended

    def _replay(self, about: Described) -> int:
        key, folder = about.trial.key, about.folder
        run = self._run_of(key, about.name, to_ms(about.attempts[0].began), about.found_by)
        self._send(key, {"params": about.params, "tags": about.tags, "datasets": about.datasets})
        journal, state = Journal(folder.journal_path), folder.state(key)
        state = "interrupted" if state == "running" and self._has_ended(about.attempts[-1]) else state
        new = [journal[place] for place in unsent(journal, self._sent(key).step, everything=state == "finished")]
        points = [point for report in new for point in journal_points(about.card, report)]
        self._store.log_points(run, points)
        if new:
            self._ledger.put(key, replace(self._sent(key), step=new[-1].step))
        self._logged |= {name for report in journal for name in pages.points_in(about.card, report)}
        result = result_digest(folder) if state == "finished" and key not in self._running else None
        self._send(key, {"tags of the journal": {CARRIED: carried(self._sent(key).step, journal, result)}})
        if key in self._running:  # its result may exist before the attempt's end, which gives the time
            self._store.set_status(run, "RUNNING", None)
            return len(points)
        numbers = 0
        if state == "finished":
            numbers = self._send(key, {"numbers": about.numbers})
            self._ledger.put(key, replace(self._sent(key), result=result))
        status = STATUS.get(state, "KILLED")
        self._store.set_status(run, status, None if status == "RUNNING" else about.end_ms(journal.newest))
        return len(points) + numbers

    def _run_of(self, key: str, name: str, start_ms: int, tags: Mapping[str, str]) -> str:
        """The run with these tags, made if missing."""
        if key not in self._runs:
            self._runs[key] = self._store.create(name, start_ms, tags)
        if not self._sent(key).parts:
            self._due.add(key)
        self._ledger.put(key, self._sent(key))
        return self._runs[key]

    def _sent(self, key: str) -> Sent:
        """What its run has: nothing, if it is another one than before."""
        sent, run = self._ledger.get(key), self._runs[key]
        return sent if sent is not None and sent.run == run else Sent(run)

    def _send(self, key: str, parts: Mapping[str, Any]) -> int:
        """Send the parts whose content is new; returns how many points were new."""
        sent, count = self._sent(key), 0
        for name, content in parts.items():
            digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
            if sent.parts.get(name) != digest:
                count += self._store.send(sent.run, name, content)
                sent = replace(sent, parts=sent.parts | {name: digest})
        self._ledger.put(key, sent)
        return count

    def _show(self, study: Study, changed: bool) -> tuple[str, ...]:
        """Send the study's run, its view, and what a store may refuse. Returns notices.

        Once this folder has ``changed`` the runs, they belong to it.
        """
        begun = [trial for trial in study.trials if trial.key in self._seen]
        if not begun:
            return ()
        self._place = place_of(self._folder, self._uri) if changed or not self._place else self._place
        # last in the view, since it has no texts to stand side by side
        tags = {IDENTITY: study.mark, "sweep.id": study.name, "kind": STUDY, f"{study.task.tags}.order": "9999"}
        tags |= {PLACE: self._place}
        run = self._run_of(STUDY, "study", pages.first_asked_ms(study), tags)
        own = self._store.owner == study.mark  # several studies may share one
        view = pages.view_tag(study, sorted(self._logged)) | (pages.KIND if own else {})
        self._send(STUDY, {"tags": tags, "view": view})
        sent, experiment = self._sent(STUDY), {EXPERIMENT: self._store.experiment_id}
        if not sent.parts.items() >= experiment.items():
            self._store.set_status(run, "FINISHED", pages.first_asked_ms(study))
            self._ledger.put(STUDY, replace(sent, parts=sent.parts | experiment))
        return self._artifacts(study, begun, own)

    def _artifacts(self, study: Study, begun: list[StudyTrial], own: bool) -> tuple[str, ...]:
        """A store may refuse them: one notice, and the next try after a pause."""
        if time.monotonic() < self._retry_due and self._running:
            return ()
        try:
            for trial in begun:
                if trial.key in self._due:
                    self._page(study, trial)
            if STUDY in self._due and not (self._running and time.monotonic() < self._page_due):
                self._study_page(study, begun, own)
        except Exception as error:  # every kind of store raises its own
            self._retry_due = time.monotonic() + RETRY_S
            complaint, self._complaint = self._complaint, cause_of(error)
            if complaint == self._complaint:
                return ()
            return (f"artifacts are not stored: {self._complaint}; fix that, then run `allelse sync`",)
        self._complaint = ""
        return ()

    def _page(self, study: Study, trial: StudyTrial) -> None:
        """A trial's artifacts."""
        folder, lives = study.trial_folder(trial), trial.key in self._running
        files = pages.run_files(folder, lives)
        model = {} if lives else Described(study, trial, folder.attempts.all()).model
        tables = {"mlflow.loggedArtifacts": pages.TABLES if pages.SAMPLES in files else ""}
        self._send(trial.key, {**_files(files), "tags of files": tables, "model": model})
        self._due.discard(trial.key)

    def _study_page(self, study: Study, begun: list[StudyTrial], own: bool) -> None:
        """The study in words, and its files; while trials run, one version per minute: it takes seconds to make."""
        table = whole_table(study, study.task.headline)
        words = pages.row_words(table)
        for trial in begun:
            tags = {f"{pages.ROW}{name}": text for name, text in words[trial.row].items()}
            self._send(trial.key, {"tags of the row": tags})
        note = {pages.NOTE: pages.study_note(table)}
        parts = {"tags of the note": note, **({"view of the note": note} if own else {})}
        self._send(STUDY, {**parts, **_files(pages.study_files(table))})
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


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"
