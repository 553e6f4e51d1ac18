"""Sends the files of runs and what is made with them, which a store may refuse."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tracking.error_causes import cause_of
from tracking.mlflow import pages
from tracking.mlflow.describe import Described
from tracking.mlflow.ledger import STUDY
from tracking.mlflow.names import legal
from tracking.mlflow.replay.one_pass import Pass
from tracking.mlflow.replay.study_runs import StudyRuns
from tracking.study import StudyTrial
from tracking.table.study_table import whole_table

RETRY_S = 60.0  # between two attempts to store artifacts
PAGE_S = 60.0  # between two versions of the study's page, which takes seconds to make


class Artifacts:
    """Sends the artifacts that are due, with pauses while trials run.

    A store may refuse them. Then the pass gets a notice, and a later one tries again.
    """

    def __init__(self, runs: StudyRuns) -> None:
        self._runs = runs
        self._next_page_at = 0.0
        self._next_retry_at = 0.0
        self._refusal = ""  # why artifacts were not stored

    def send(self, this_pass: Pass, begun: Sequence[StudyTrial]) -> None:
        if this_pass.running.keys and time.monotonic() < self._next_retry_at:
            return
        try:
            self._send_due(this_pass, begun)
        except Exception as error:  # every kind of store raises its own
            self._next_retry_at = time.monotonic() + RETRY_S
            self._note_refusal(this_pass, cause_of(error))
        else:
            self._refusal = ""

    def _note_refusal(self, this_pass: Pass, refusal: str) -> None:
        """Tell the pass, unless an earlier one was told the same."""
        if refusal != self._refusal:
            fix = "fix that, then run `allelse sync`"
            this_pass.notices.append(f"artifacts are not stored: {refusal}; {fix}")
        self._refusal = refusal

    def _send_due(self, this_pass: Pass, begun: Sequence[StudyTrial]) -> None:
        for trial in begun:
            if trial.key in self._runs.due:
                self._send_trial_files(this_pass, trial)
        must_wait = this_pass.running.keys and time.monotonic() < self._next_page_at
        if STUDY in self._runs.due and not must_wait:
            self._send_study_files(this_pass, begun)

    def _send_trial_files(self, this_pass: Pass, trial: StudyTrial) -> None:
        folder = this_pass.study.trial_folder(trial)
        is_running = trial.key in this_pass.running.keys
        files = pages.run_files(folder, is_running)
        tables = {"mlflow.loggedArtifacts": pages.TABLES if pages.SAMPLES in files else ""}
        parts: dict[str, Any] = {**_file_parts(files), "tags of files": tables, "model": {}}
        if not is_running:
            parts["model"] = Described(this_pass.study, trial, folder.attempts.all()).model
        self._runs.send(trial.key, parts)
        self._runs.due.discard(trial.key)

    def _send_study_files(self, this_pass: Pass, begun: Sequence[StudyTrial]) -> None:
        """Send the tags of rows and the study's files: once per minute while trials run, since
        making them takes seconds."""
        table = whole_table(this_pass.study, this_pass.study.task.headline)
        texts = pages.row_words(table)
        for trial in begun:
            tags = {f"{pages.ROW}{legal(name)}": text for name, text in texts[trial.row].items()}
            self._runs.send(trial.key, {"tags of the row": tags})
        self._runs.send(STUDY, _file_parts(pages.study_files(table)))
        self._runs.due.discard(STUDY)
        self._next_page_at = time.monotonic() + PAGE_S


def _file_parts(files: Mapping[str, str]) -> dict[str, str]:
    return {f"file {path}": content for path, content in files.items()}
