"""Which folder a study's runs belong to: two folders must not change the same runs.

The study's identity stays when its folder is moved, but a copy has the same one. So the study's run
names the folder that sent it, and each run says what was sent. Another folder with this identity
may add to that, but not change it.
"""

import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tracking.files import unless_damaged
from tracking.json_lines.journal import JournalLine
from tracking.mlflow.ledger import STUDY, result_digest
from tracking.mlflow.runs import CARRIED, curve_digest
from tracking.study import STUDY_FILE, Study, read_study
from tracking.trial import TrialFolder
from tracking.uri import default_uri
from tracking.words import trial_name

PLACE = "sweep.place"
"""The tag of the study's run that names the folder."""
BESIDE = "<paths.runs>/"
Tags = Mapping[str, str]


class OtherFolderError(ValueError):
    """The runs belong to another folder, which has different journals or results."""


def folder_mark(folder: Path, uri: str) -> str:
    """The folder's number on its disk, which a rename keeps, and its path.

    The default store is next to its studies and is copied with them. So there the path is
    relative to the store.
    """
    if uri == default_uri(folder.parent):
        path = f"{BESIDE}{folder.name}"
    else:
        path = f"{socket.gethostname()}:{folder.resolve()}"
    return f"{folder.stat().st_ino} {path}"


def refuse_other_folder(study: Study, uri: str, mark: str, runs: Mapping[str, Tags]) -> None:
    """Raises OtherFolderError if the folder with this mark sent the runs, by trial key, and this
    folder would change them."""
    number, _, path = mark.partition(" ")
    own_number, _, own_path = folder_mark(study.folder, uri).partition(" ")
    if not mark or number == own_number or path == own_path:
        return
    differing = []
    for trial in study.trials:
        if not _continues(study.trial_folder(trial), runs.get(trial.key, {})):
            differing.append(trial.name)
    differing += _foreign_trials(study, runs)
    if differing:
        fault = f"{', '.join(differing)} differ"
    elif _is_study_at(path, study):
        fault = "that folder is still there"
    else:
        return
    command = f"allelse sync --again sweep.name={study.name}"
    fix = f"`{command}` sends this folder's study as new runs"
    raise OtherFolderError(f"the runs of {study.name} were sent from {path}, and {fault}; {fix}")


def _foreign_trials(study: Study, runs: Mapping[str, Tags]) -> list[str]:
    """The trials that have runs, but are not in this study and were not dropped from it."""
    keys = {STUDY, *(trial.key for trial in study.trials)}
    dropped = set()
    for command in study.asked:
        dropped.update(command.get("dropped", ()))
    names = []
    for key, tags in runs.items():
        name = trial_name(str(tags.get("row")), str(tags.get("seed")))
        if key not in keys and name not in dropped:
            names.append(name)
    return names


def carried(step: int, journal: Sequence[JournalLine], result: str | None) -> str:
    """What a run has: its last step, the digest of the reports up to it, and that of the result."""
    return f"{step} {curve_digest(step, journal)} {result or ''}".strip()


def _continues(folder: TrialFolder, tags: Tags) -> bool:
    """Whether the trial has everything that its run has, and perhaps more."""
    step, _, digests = tags.get(CARRIED, "").partition(" ")
    if not step:
        return True
    journal = unless_damaged(folder.journal, [])
    result = result_digest(folder) if " " in digests else None
    return carried(int(step), journal, result) == tags[CARRIED]


def _is_study_at(path: str, study: Study) -> bool:
    """Whether the same study is also at this path, which is that of a folder mark."""
    host, _, path_on_host = path.partition(":")
    if path.startswith(BESIDE):
        folder = study.folder.with_name(path.removeprefix(BESIDE))
    elif host == socket.gethostname():
        folder = Path(path_on_host)
    else:
        return False
    if not (folder / STUDY_FILE).is_file():
        return False
    candidate = unless_damaged(partial(read_study, folder), None)
    return candidate is not None and candidate.mark == study.mark
