"""`runs/.trash/`: what `drop` and `rm` have moved there.

A folder there is a whole study, or trials that were dropped from one. They are next to the study's
record at that time, and `dropped.json` lists them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sweeps.planning.studies.advice import command
from sweeps.planning.studies.study_overrides import placed
from tracking.files import Form, read_object, to_json, unless_damaged, write_atomic
from tracking.study import STUDY_FILE, Study, StudyTrial, read_study

TRASH = ".trash"
DROPPED_FILE = "dropped.json"
DROPPED: Form = {"study": str, "trials": [str]}
MOMENT = "%Y%m%dT%H%M%S.%fZ"
LONGEST_NAME = 200
"""Bytes of the study's name within the name of a folder of the trash."""


LONGEST_LETTER = 4  # bytes in UTF-8


@dataclass(frozen=True)
class Trashed:
    """A folder of the trash. ``trials`` were dropped from the ``study``; None if the whole study
    was removed."""

    folder: Path
    study: str
    trials: tuple[str, ...] | None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def origin(self) -> Path:
        """The folder in which the study was."""
        return self.folder.parent.parent / self.study

    @property
    def restore_command(self) -> str:
        return command("restore", self.name, *placed(self.origin))

    def rows(self) -> list[str]:
        """The rows of the dropped trials. Raises DamagedFileError."""
        return list(dict.fromkeys(trial.row for trial in self.record_of(self.trials or ())))

    def record_of(self, names: Iterable[str]) -> list[StudyTrial]:
        """What the study's old record has of these trials. Raises DamagedFileError."""
        wanted = set(names)
        return [trial for trial in read_study(self.folder).trials if trial.name in wanted]


def new_folder(study: Path) -> Path:
    """A new path, such as `.trash/20300131T120000.123456Z-multi30k-half`."""
    name = study.name.encode()[:LONGEST_NAME].decode(errors="ignore")
    return study.parent / TRASH / f"{datetime.now(UTC).strftime(MOMENT)}-{name}"


def trashed(runs: Path) -> list[Trashed]:
    """Everything in the trash, the newest first."""
    paths = sorted((runs / TRASH).glob("*Z-*"), reverse=True)
    return [_trashed(path) for path in paths if path.is_dir()]


def note_dropped(folder: Path, study: Study, trials: Sequence[StudyTrial]) -> None:
    """Before these trials of the study move to the ``folder``: keep its record, and list them."""
    write_atomic(folder / STUDY_FILE, (study.folder / STUDY_FILE).read_text("utf-8"))
    list_dropped(folder, study.name, [trial.name for trial in trials])


def list_dropped(folder: Path, study: str, trials: Sequence[str]) -> None:
    """Write which trials of the study the folder holds."""
    content = {"study": study, "trials": list(trials)}
    write_atomic(folder / DROPPED_FILE, to_json(content) + "\n")


def _trashed(folder: Path) -> Trashed:
    dropped = unless_damaged(lambda: read_object(folder / DROPPED_FILE, DROPPED), None)
    if dropped is not None:
        return Trashed(folder, dropped["study"], tuple(dropped["trials"]))
    _, _, name = folder.name.partition("-")
    if len(name.encode()) > LONGEST_NAME - LONGEST_LETTER:  # it may have been cut
        record = unless_damaged(lambda: read_object(folder / STUDY_FILE), None) or {}
        name = str(record.get("name", name))
    return Trashed(folder, name, None)
