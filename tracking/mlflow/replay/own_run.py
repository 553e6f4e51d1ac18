"""Sends the study's own run, which stands beside those of its trials, and the study's view."""

from collections.abc import Collection, Mapping

from tracking.mlflow.ledger import EXPERIMENT, IDENTITY, STUDY
from tracking.mlflow.replay.one_pass import Pass
from tracking.mlflow.replay.other_folder import PLACE, folder_mark
from tracking.mlflow.replay.pass_outcome import shortened
from tracking.mlflow.replay.study_runs import StudyRuns
from tracking.mlflow.runs import digest_of
from tracking.mlflow.store import Store
from tracking.mlflow.view import KIND, first_asked_ms, view_tag
from tracking.study import Study

NAMES = "names"  # a part of the run: the digest of the names that differ in MLflow


class OwnRun:
    """The run of a study itself."""

    def __init__(self, runs: StudyRuns, store: Store, uri: str) -> None:
        self._runs = runs
        self._store = store
        self._uri = uri

    def send(
        self, this_pass: Pass, logged: Collection[str], changed_names: Mapping[str, str]
    ) -> None:
        """Send what the run lacks.

        ``logged``: the metrics that the view shows while training. ``changed_names``: names that
        differ in MLflow, each with its name there.
        """
        study = this_pass.study
        self._claim(this_pass)
        tags = self._tags(study)
        if not self._runs.ids.get(STUDY):
            self._runs.ids[STUDY] = self._store.create("study", first_asked_ms(study), tags)
        self._runs.send(STUDY, {"tags": tags, "view": self._view(study, logged)})
        self._remark_on_names(this_pass, changed_names)
        self._finish(study)

    def _claim(self, this_pass: Pass) -> None:
        """The runs belong to this folder once it has changed them."""
        has_changed = any(this_pass.points.values())
        if has_changed or not self._runs.folder_mark:
            self._runs.folder_mark = folder_mark(this_pass.study.folder, self._uri)

    def _tags(self, study: Study) -> dict[str, str]:
        return {
            IDENTITY: study.mark,
            "sweep.id": study.name,
            "kind": STUDY,
            # last in the view, since it has no texts to compare
            f"{study.task.tags}.order": "9999",
            PLACE: self._runs.folder_mark,
        }

    def _view(self, study: Study, logged: Collection[str]) -> dict[str, str]:
        view = view_tag(study, sorted(logged))
        if self._store.owner == study.mark:  # otherwise several studies may share the experiment
            view |= KIND
        return view

    def _remark_on_names(self, this_pass: Pass, changed_names: Mapping[str, str]) -> None:
        """Say once which names differ in MLflow; the tags of each run have them."""
        if not changed_names:
            return
        digest = digest_of(changed_names)
        if self._runs.sent(STUDY).parts.get(NAMES) == digest:
            return
        pairs = [f"{name} is {other_name}" for name, other_name in sorted(changed_names.items())]
        this_pass.remarks.append(f"MLflow uses different names: {shortened(pairs, '; ')}")
        self._runs.record_part(STUDY, NAMES, digest)

    def _finish(self, study: Study) -> None:
        """End the run, once in each experiment."""
        sent = self._runs.sent(STUDY)
        if sent.parts.get(EXPERIMENT) != self._store.experiment_id:
            self._store.set_status(sent.run, "FINISHED", first_asked_ms(study))
            self._runs.record_part(STUDY, EXPERIMENT, self._store.experiment_id)
