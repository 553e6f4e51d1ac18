"""Everything that a trial's run holds besides its journal and result, each part sent once per content."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tracking.comparison import base_of, best_and_last, delta_values, published_values, row_of
from tracking.damage import unless_damaged
from tracking.describe import points_of, to_ms
from tracking.formats import stopped_at
from tracking.liveness import Attempt
from tracking.metric_names import DELTA
from tracking.notes import run_note
from tracking.run_colors import color_of
from tracking.run_files import SAMPLES, TABLES, run_files
from tracking.run_names import run_names
from tracking.study import Study, Trial
from tracking.tracker import Dataset, Point, Tracker
from tracking.trial_folder import TrialFolder

NOTE, RUN_NAME = "mlflow.note.content", "mlflow.runName"
COLOR, LOGGED_TABLES = "mlflow.runColor", "mlflow.loggedArtifacts"
Parts = dict[str, str]  # what was sent: a part's name, and its content or the SHA-256 of it


@dataclass(frozen=True)
class RunPage:
    """One trial's run in a tracker."""

    tracker: Tracker
    study: Study
    trial: Trial
    run_id: str

    @property
    def folder(self) -> TrialFolder:
        return self.study.trial_folder(self.trial)

    def send(self, sent: Mapping[str, str], lives: bool) -> Parts:
        """Send what differs from `sent`; returns all parts that are there now. Artifacts are `send_files`."""
        files = run_files(self.folder, lives)
        return {**sent, **self._tags(sent, SAMPLES in files), **self._dataset(sent), **self._numbers(sent)}

    def send_files(self, sent: Mapping[str, str], lives: bool) -> Parts:
        """Upload the artifacts whose content is new."""
        return upload(self.tracker, self.run_id, run_files(self.folder, lives), sent)

    def _tags(self, sent: Mapping[str, str], has_samples: bool) -> Parts:
        note = run_note(self.study, self.trial, row_of(self.study, self.trial))
        tags = {NOTE: note, RUN_NAME: run_names(self.study)[self.trial.key]}
        tags |= {COLOR: color_of(self.study, self.trial)}
        tags |= {LOGGED_TABLES: TABLES} if has_samples else {}
        tags |= self._stopped(sent)
        new = {name: value for name, value in tags.items() if sent.get(name) != digest(value)}
        if new:
            self.tracker.set_tags(self.run_id, new)
        return {name: digest(value) for name, value in tags.items()}

    def _stopped(self, sent: Mapping[str, str]) -> dict[str, str]:
        """Such as "100 of 500", if training ended before its steps; no tag can be removed, so that it may be empty."""
        name, result = f"{self.study.task.tags}.stopped_at", self.folder.finished_result(self.trial.key)
        text = stopped_at(result).removeprefix("stopped at ")
        return {name: text} if text or name in sent else {}

    def _dataset(self, sent: Mapping[str, str]) -> Parts:
        dataset = dataset_of(self.study, self.folder)
        if dataset is None:
            return {}
        content = digest(json.dumps(asdict(dataset)))
        if sent.get("dataset") != content:
            self.tracker.log_dataset(self.run_id, dataset)
        return {"dataset": content}

    def _numbers(self, sent: Mapping[str, str]) -> Parts:
        """Differences and the like of a finished trial. No point can be removed: what holds no longer is NaN."""
        result = self.folder.finished_result(self.trial.key)
        if result is None:
            return {}
        values = self._values()
        before: dict[str, float] = json.loads(sent.get("numbers", "{}"))
        gone = {name: math.nan for name in before if name not in values and name.startswith(DELTA)}
        new = {name: value for name, value in values.items() if before.get(name) != value}
        at = self._end_ms(again=bool(before))
        points = points_of(new | gone, at, result["step"]) + ([] if before else self._extremes())
        if points:
            self.tracker.log_points(self.run_id, points)
        return {"numbers": json.dumps(values)}

    def _values(self) -> dict[str, float]:
        row = row_of(self.study, self.trial)
        return {**delta_values(self.study.task, row), **published_values(self.study, self.trial)}

    def _extremes(self) -> list[Point]:
        """The best and the last values while training, at their steps."""
        found = best_and_last(self.folder.card, unless_damaged(self.folder.journal, []))
        return [Point(name, value, to_ms(line.ts), line.step) for name, (value, line) in found.items()]

    def _end_ms(self, again: bool) -> int:
        """When this trial and base's had ended. A value that replaces one needs a later time: that of the files."""
        base = base_of(self.study, self.trial)
        folders = [self.study.trial_folder(each) for each in (self.trial, base) if each is not None]
        ends = [to_ms(_ended(attempts[-1])) for each in folders if (attempts := unless_damaged(each.attempts, []))]
        files = [to_ms(each.result_path.stat().st_mtime) for each in folders if again and each.result_path.exists()]
        return max([*ends, *files])


def _ended(attempt: Attempt) -> float:
    return attempt.began if attempt.ended is None else attempt.ended


def dataset_of(study: Study, folder: TrialFolder) -> Dataset | None:
    """The data of a trial: named as its configuration names it, or like its task; None before it has begun."""
    provenance: dict[str, Any] = unless_damaged(folder.provenance, {})
    fingerprint = provenance.get("data_fingerprint")
    if not isinstance(fingerprint, str):
        return None
    data = (unless_damaged(folder.config, None) or {}).get("data")
    name = data.get("name") if isinstance(data, dict) else None
    source = json.dumps({"fingerprint": fingerprint, "study": study.name})
    return Dataset(name if isinstance(name, str) else study.task.name, fingerprint[:12], source)


def upload(tracker: Tracker, run_id: str, files: Mapping[str, bytes], sent: Mapping[str, str]) -> Parts:
    """Store those files whose content is new; returns all parts that are there now."""
    digests = {f"file {path}": digest(content) for path, content in files.items()}
    new = {path: content for path, content in files.items() if sent.get(f"file {path}") != digests[f"file {path}"]}
    if new:
        tracker.log_files(run_id, new)
    return {**sent, **digests}


def digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
