"""A finished trial of another study that can replace a planned one, which then needn't be
trained."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sweeps.checkpoints.reader import CheckpointReader
from sweeps.processes.storage import answer_in_time
from tracking.code import SameCode
from tracking.files import unless_damaged
from tracking.provenance import Provenance, SourceTrial, trained_by
from tracking.study import STUDY_FILE, Study, StudyMissing, StudyTrial, read_study, study_folders
from tracking.trial import TrialFolder

OTHER_CODE = "other code trained it"
OTHER_VARIABLES = "it was trained with other environment variables"


@dataclass(frozen=True)
class Source:
    """``is_scored`` says whether it has scores with the settings of the planned trial. Otherwise
    its weights are scored again."""

    study: Study
    trial: StudyTrial
    is_scored: bool

    @cached_property
    def folder(self) -> TrialFolder:
        return self.study.trial_folder(self.trial)

    @cached_property
    def result(self) -> Mapping[str, object]:
        return self.folder.finished_result(self.trial.key) or {}

    @property
    def record(self) -> SourceTrial:
        return SourceTrial(self.study.name, self.study.mark, self.trial.name)

    @property
    def checkpoints(self) -> str:
        """The URL under which its checkpoints lie."""
        config = unless_damaged(self.folder.config, None) or {}
        return self.folder.checkpoints_url(config.get("paths", {}).get("checkpoints"))

    def reader(self) -> CheckpointReader:
        """Its checkpoints. Raises DamagedFileError."""
        return all_checkpoints(self.folder, self.checkpoints, self.trial.key)

    @property
    def step(self) -> int:
        return int(str(self.result["step"]))

    @property
    def has_diverged(self) -> bool:
        return self.result.get("diverged") is not None

    @property
    def has_whole_scores(self) -> bool:
        """Whether texts and statistics were made with the settings of the result: not while it is
        scored again."""
        scores: Any = self.result["scores"]
        heads = self.folder.evaluated()
        return all(
            heads[set_name]["scores"]["decode"] == set_scores["decode"]
            for set_name, set_scores in scores.items()
            if set_name in heads
        )

    def training(self) -> list[Provenance]:
        """The records of the attempts whose steps are in its weights."""
        return trained_by(unless_damaged(self.folder.provenance, {}), self.step)

    def codes(self) -> list[str]:
        """The hashes of the user's code that trained it."""
        codes = [str(record["code"]) for record in self.training() if record.get("code")]
        return list(dict.fromkeys(codes))

    def saved_steps(self) -> set[int]:
        """The steps with a checkpoint; none where the store does not answer in time."""
        if "://" not in self.checkpoints:
            return unless_damaged(self._read_steps, set())
        with suppress(Exception):  # each filesystem has its own errors
            return answer_in_time(self._read_steps)
        return set()

    def _read_steps(self) -> set[int]:
        return self.reader().steps()

    def last_saved(self) -> int | None:
        """The step of its last checkpoint as the journal has it, whether it is still there or
        not."""
        newest = unless_damaged(self.folder.newest_report, None)
        return None if newest is None else newest.checkpoint

    def is_by(self, code: str, own_files: str, same_code: SameCode) -> bool:
        """Whether this version trained it: of the user's code, or without one of our own files."""
        records = self.training()
        if not records:
            return False
        if code:
            return all(same_code.are_same(str(record.get("code")), code) for record in records)
        versions = [record.get("own_files") for record in records]
        return all(version and same_code.are_same(str(version), own_files) for version in versions)

    def had_variables(self, variables: Mapping[str, str | None]) -> bool:
        """Whether the environment variables that the code names had these values."""
        for record in self.training():
            environment = record.get("environment") or {}
            for name, value in environment.items():
                if variables.get(name, value) != value:
                    return False
        return True


def all_checkpoints(folder: TrialFolder, url: str, key: str) -> CheckpointReader:
    """The checkpoints of all attempts of a trial. Raises DamagedFileError."""
    return CheckpointReader(url, key, folder.lineage())


def finished_elsewhere(study: Path, keys: set[str]) -> Iterator[tuple[Study, StudyTrial]]:
    """The trials with these keys of the other studies in the same folder that have a result.

    Studies that cannot be read are left out.
    """
    for folder in study_folders(study.parent):
        if folder == study or not _names_any(folder / STUDY_FILE, keys):
            continue
        other_study = unless_damaged(partial(_study_of, folder), None)
        if other_study is None:
            continue
        for trial in other_study.trials:
            trial_folder = other_study.trial_folder(trial)
            if trial.key in keys and trial_folder.finished_result(trial.key) is not None:
                yield other_study, trial


def _study_of(folder: Path) -> Study | None:
    try:
        return read_study(folder)
    except StudyMissing:  # it was moved a moment ago
        return None


def _names_any(path: Path, keys: set[str]) -> bool:
    """Whether the file has any of the keys. A search is faster than parsing it."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return False
    return any(key in text for key in keys)
