"""Pictures that the work of trials drew, such as what attention heads read."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tracking.report.drawing import Entry
from tracking.study import Study


@dataclass(frozen=True)
class TrialPicture:
    """A picture of a row's first finished seed that has any."""

    entry: Entry
    seed: int
    name: str
    svg: str

    @property
    def address(self) -> str:
        """The picture as a data URL: a page shows it as an image, and runs nothing in it."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}"


def trial_pictures(study: Study, entries: Sequence[Entry]) -> list[TrialPicture]:
    """The pictures of each row, in the study's order."""
    pictures: list[TrialPicture] = []
    for entry in entries:
        pictures += _pictures_of(study, entry)
    return pictures


def _pictures_of(study: Study, entry: Entry) -> list[TrialPicture]:
    for trial in study.trials:
        if trial.row != entry.row.row or study.standing(trial).result is None:
            continue
        pictures = study.trial_folder(trial).pictures()
        if pictures:
            return [
                TrialPicture(entry, trial.seed, PurePosixPath(path).stem, svg)
                for path, svg in pictures.items()
            ]
    return []
