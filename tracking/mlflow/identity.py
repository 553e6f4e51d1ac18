"""Whose runs these are. Runs are found by the study's random identity.

It stays when the folder is moved, but a copy has it, too. So the study's run names the folder that sent it, and each
run what was sent: another folder with the same identity may go on from there, but not change it.
"""

import hashlib
import json
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from tracking.damage import unless_damaged
from tracking.files import read_whole
from tracking.journal import JournalLine
from tracking.study import STUDY_FILE, Study, read_study
from tracking.trial import TrialFolder

IDENTITY, PLACE, CARRIED = "study.id", "study.place", "study.carried"
"""Tags: of every run and of the study's own experiment; of the study's run; of a trial's run."""
Tags = Mapping[str, str]


class OtherPlaceError(ValueError):
    """The runs are those of another folder, which has other journals or results."""


def place_of(folder: Path) -> str:
    """The folder, by its number on its disk, which stays when it is renamed, and by its path."""
    return f"{folder.stat().st_ino} {socket.gethostname()}:{folder.resolve()}"


def refuse_other_place(study: Study, place: str, runs: Mapping[str, Tags]) -> None:
    """Raises OtherPlaceError if the runs, by trial key, were sent from ``place`` and this folder would change them."""
    number, _, where = place.partition(" ")
    own_number, _, own = place_of(study.folder).partition(" ")
    if not place or number == own_number or where == own:
        return
    others = [trial.name for trial in study.trials if not _goes_on(study.trial_folder(trial), runs.get(trial.key, {}))]
    if others or _is_there(where, study.mark):
        found = f"{', '.join(others)} differ" if others else "that folder is still there"
        names = (
            f"`allelse sync --moved sweep.name={study.name}` replaces its runs, `allelse sync --copy` makes own ones"
        )
        raise OtherPlaceError(f"the runs of {study.name} were sent from {where}, and {found}; {names}")


def carried(step: int, journal: Iterable[JournalLine], result: str | None) -> str:
    """What a run has: its last step, and digests of the reports up to there and of the result."""
    reports = [[line.ts, line.step, line.metrics] for line in journal if line.step <= step]
    return (
        f"{step} {hashlib.sha256(json.dumps(reports, sort_keys=True).encode()).hexdigest()[:16]} {result or ''}".strip()
    )


def result_digest(folder: TrialFolder) -> str | None:
    """The SHA-256 of ``result.json``; None without it."""
    content = unless_damaged(lambda: read_whole(folder.result_path), None)
    return None if content is None else hashlib.sha256(content).hexdigest()


def _goes_on(folder: TrialFolder, tags: Tags) -> bool:
    """Whether the trial has what its run has, and perhaps more."""
    step, _, rest = tags.get(CARRIED, "").partition(" ")
    if not step:
        return True
    now = carried(int(step), unless_damaged(folder.journal, []), result_digest(folder) if " " in rest else None)
    return now == tags[CARRIED]


def _is_there(where: str, identity: str) -> bool:
    host, _, path = where.partition(":")
    if host != socket.gethostname() or not (Path(path) / STUDY_FILE).is_file():
        return False
    other = unless_damaged(lambda: read_study(Path(path)), None)
    return other is not None and other.mark == identity
