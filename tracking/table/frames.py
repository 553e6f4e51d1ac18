"""A study as pandas frames, for notebooks. Their columns and types are an interface, listed in
docs/notebook.md."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracking.card import COSTS, DEVICE_COSTS
from tracking.files import unless_damaged
from tracking.study import Standing, Study, StudyMissing, StudyTrial, read_study, study_folders
from tracking.words import known_step, stopped_at

if TYPE_CHECKING:
    from pandas import DataFrame

TEXT = "string"
WHOLE = "Int64"
NUMBER = "float64"
TIME = "datetime64[ns, UTC]"
NAMES = {"trial": TEXT, "row": TEXT, "seed": WHOLE}
TRIALS = {
    **NAMES,
    "group": TEXT,
    "change": TEXT,
    "key": TEXT,
    "state": TEXT,
    "note": TEXT,
    "attempts": WHOLE,
    "step": WHOLE,
    "params": WHOLE,
    "flops": NUMBER,
    "seconds": NUMBER,
    "cpu_seconds": NUMBER,
    **dict.fromkeys(DEVICE_COSTS, NUMBER),
}
SCORES = {**NAMES, "set": TEXT, "metric": TEXT, "value": NUMBER}
CURVES = {**NAMES, "attempt": WHOLE, "step": WHOLE, "time": TIME, "metric": TEXT, "value": NUMBER}


@dataclass(frozen=True)
class StudyFrames:
    """A study's trials, final scores and curves, each a pandas DataFrame in the order of the
    table."""

    name: str
    trials: "DataFrame"  # one line per trial
    scores: "DataFrame"  # one line per finished trial, set and metric
    curves: "DataFrame"  # one line per trial, step and metric of the journal


def load(folder: str | os.PathLike[str]) -> StudyFrames:
    """The study in this folder, such as `runs/synthetic-tiny`.

    Raises StudyMissing, a FileNotFoundError, if the folder has no study, and DamagedFileError if
    `study.json` cannot be read. A trial with damaged files stays: its ``note`` names them, and what
    they held is missing.
    """
    study = _read(Path(folder).expanduser().absolute())
    standings = study.standings()
    trials = list[dict[str, Any]]()
    scores = list[dict[str, Any]]()
    curves = list[dict[str, Any]]()
    for standing in standings:
        trials.append(_trial(study, standing))
        scores += _scores(study, standing)
        curves += _curves(study, standing.trial)
    return StudyFrames(
        study.name, _frame(TRIALS, trials), _frame(SCORES, scores), _frame(CURVES, curves)
    )


def _read(folder: Path) -> Study:
    try:
        return read_study(folder)
    except StudyMissing as error:
        parents = (folder, folder.parent, folder.parent / "runs", folder.parent.parent)
        studies = [study for parent in parents for study in study_folders(parent)]
        nearest = max(studies, key=partial(_similarity, folder), default=None)
        if nearest is None:
            raise
        raise StudyMissing(f"{error}; name a study's folder, such as {nearest}") from None


def _similarity(folder: Path, study: Path) -> float:
    """How alike the names are, from 0 to 1; one more for the study that contains the folder."""
    ratio = SequenceMatcher(None, folder.name, study.name).ratio()
    return ratio + 1 if study == folder.parent else ratio


def _trial(study: Study, standing: Standing) -> dict[str, Any]:
    trial = standing.trial
    result = standing.result or {}
    folder = study.trial_folder(trial)
    notes = [stopped_at(result), folder.cause(), *(error.note for error in folder.damage())]
    return {
        **_names(trial),
        "group": trial.group,
        "change": trial.change,
        "key": trial.key,
        "state": standing.state,
        "note": "; ".join(filter(None, notes)),
        "attempts": len(unless_damaged(folder.attempts.all, [])),
        "step": known_step(result),
        **{name: result.get(name) for name in (*COSTS, *DEVICE_COSTS)},
    }


def _scores(study: Study, standing: Standing) -> Iterator[dict[str, Any]]:
    """None of an unfinished trial, and none of metrics that a set does not have."""
    names = _names(standing.trial)
    result = standing.result or {}
    for set_name, scores in result.get("scores", {}).items():
        for metric, value in study.task.scores(scores).values.items():
            if value is not None or metric in scores:
                yield {**names, "set": set_name, "metric": metric, "value": value}


def _curves(study: Study, trial: StudyTrial) -> Iterator[dict[str, Any]]:
    journal = study.trial_folder(trial).journal
    for report in unless_damaged(journal, []):
        point = {"attempt": report.attempt, "step": report.step, "time": report.ts}
        for metric, value in report.metrics.items():
            curve_point = {"metric": metric, "value": value}
            yield _names(trial) | point | curve_point


def _names(trial: StudyTrial) -> dict[str, Any]:
    return {"trial": trial.name, "row": trial.row, "seed": trial.seed}


def _frame(columns: Mapping[str, str], lines: list[dict[str, Any]]) -> "DataFrame":
    """The lines with exactly these columns and types, even without a line. None becomes NaN or
    NA."""
    import pandas as pd

    frame = pd.DataFrame(lines, columns=list(columns))
    if "time" in columns:
        frame["time"] = pd.to_datetime(frame["time"].astype(NUMBER), unit="s", utc=True)
    return frame.astype(dict(columns))
