"""What MLflow shows of a study besides points: the pages of its runs, its own page, and the view of the comparison.

They come after the points in every pass, and artifacts come last, so that nothing here holds back a point.
"""

import json
import time
from collections.abc import Collection, Mapping

from tracking.cause import cause_of
from tracking.comparison import base_of
from tracking.ledger import Ledger
from tracking.looks import settled_looks
from tracking.notes import study_note
from tracking.one_run import OneRun
from tracking.rows import table
from tracking.run_page import NOTE, RunPage, digest, upload
from tracking.saved_view import view_tag
from tracking.study import Study, Trial
from tracking.study_page import study_files, study_run
from tracking.tracker import Tracker

STUDY = "study"  # its key in the ledger
RETRY_S = 60.0  # between two tries to store artifacts, and between two versions of the study's files
KIND = {"mlflow.experimentKind": "custom_model_development"}  # MLflow then opens on runs, not on traces


class Pages:
    """The pages of one study in one tracker. Every part is sent once per content, as the ledger tells."""

    def __init__(self, tracker: Tracker, sent: Ledger) -> None:
        self._tracker, self._sent, self._one = tracker, sent, OneRun(tracker, sent)
        self._seen: dict[str, object] = {}  # trial key, or STUDY -> the files behind its page when it was last sent
        self._stored: dict[str, object] = {}  # the same for artifacts
        self._wait_until, self._next_version, self._complaint = 0.0, 0.0, ""
        self._running: Collection[str] = ()

    def once(
        self, study: Study, runs: Mapping[str, str], logged: Collection[str], running: Collection[str]
    ) -> tuple[str, ...]:
        """Send what changed. ``runs``: run ids by trial key. ``logged``: names of metrics while training.

        ``running``: keys of the trials that run now.

        Returns notices. Raises what the tracker raises, except for artifacts, without which a store is still of use.
        """
        self._running = running
        trials = [trial for trial in study.trials if trial.key in runs]
        for trial in trials:
            looks = self._looks(study, trial)
            if self._seen.get(trial.key) != looks:
                page = RunPage(self._tracker, study, trial, runs[trial.key])
                parts = page.send(self._sent.parts(trial.key, page.run_id), trial.key in running)
                self._sent.keep(trial.key, page.run_id, parts)
                self._seen[trial.key] = looks
        if trials:
            self._study_page(study, [*trials], logged)
        return self._artifacts(study, trials, runs)

    def _looks(self, study: Study, trial: Trial) -> object:
        """Of the files behind a run's page: its own, and those of the base that it is compared with."""
        base = base_of(study, trial)
        files = [settled_looks(study.trial_folder(each)) for each in (trial, base) if each is not None]
        return tuple(files), trial.key in self._running, study.trials

    def _study_page(self, study: Study, trials: list[Trial], logged: Collection[str]) -> None:
        """The study's own run, the note and the view."""
        looks = (study.trials, frozenset(logged), tuple(self._seen[trial.key] for trial in trials))
        if self._seen.get(STUDY) == looks:
            return
        known = self._sent.sent(STUDY)
        spec = study_run(study)
        run_id = self._one.open(STUDY, spec, known.run_id if known else None)
        sent = self._sent.parts(STUDY, run_id)
        names = sorted({*logged, *json.loads(sent.get("logged", "[]"))})
        tags = view_tag(study, names) | self._experiment_tags(study)
        if new := {name: value for name, value in tags.items() if sent.get(name) != digest(value)}:
            self._tracker.set_experiment_tags(new)
        self._tracker.set_status(run_id, "FINISHED", spec.start_ms)
        self._one.settle(STUDY, spec, run_id)
        about = {"logged": json.dumps(names), "experiment": self._tracker.experiment_id}
        self._sent.keep(STUDY, run_id, {**sent, **about, **{name: digest(value) for name, value in tags.items()}})
        self._seen[STUDY] = looks

    def _experiment_tags(self, study: Study) -> dict[str, str]:
        """Only of the study's own experiment: several studies may share one."""
        if self._tracker.experiment_name() != study.name:
            return {}
        return KIND | {NOTE: study_note(study, table(study))}

    def _artifacts(self, study: Study, trials: list[Trial], runs: Mapping[str, str]) -> tuple[str, ...]:
        """Upload what is new. A store may refuse artifacts: one notice, and the next try after a pause."""
        if time.monotonic() < self._wait_until and self._running:
            return ()
        try:
            for trial in trials:
                self._files_of(study, trial, runs[trial.key])
            self._files_of_study(study)
        except Exception as error:  # every kind of store raises its own
            self._wait_until = time.monotonic() + RETRY_S
            complaint, self._complaint = self._complaint, cause_of(error)
            if complaint == self._complaint:
                return ()
            return (f"artifacts are not stored: {self._complaint}; fix that, then run `ablate sync`",)
        self._complaint = ""
        return ()

    def _files_of(self, study: Study, trial: Trial, run_id: str) -> None:
        looks = self._seen[trial.key]
        if self._stored.get(trial.key) == looks:
            return
        page = RunPage(self._tracker, study, trial, run_id)
        sent = page.send_files(self._sent.parts(trial.key, run_id), trial.key in self._running)
        self._sent.keep(trial.key, run_id, sent)
        self._stored[trial.key] = looks

    def _files_of_study(self, study: Study) -> None:
        """While trials run, at most one version per minute: a study's files take seconds to make."""
        looks, known = self._seen.get(STUDY), self._sent.sent(STUDY)
        if known is None or self._stored.get(STUDY) == looks:
            return
        if self._running and time.monotonic() < self._next_version:
            return
        parts = upload(self._tracker, known.run_id, study_files(study), known.parts)
        self._sent.keep(STUDY, known.run_id, parts)
        self._stored[STUDY], self._next_version = looks, time.monotonic() + RETRY_S
