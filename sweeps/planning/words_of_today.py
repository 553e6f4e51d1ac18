"""The words of a study's rows as their files state them today: they may be edited once the study is recorded."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from sweeps.planning.compose import compose_sweep, source_of_study
from sweeps.planning.composition import read_record, shown_change
from sweeps.planning.naming import by_name, placed
from sweeps.schema import RefusedError
from tracking.study import Study, StudyTrial, read_study, write_study


class RowWords(NamedTuple):
    """A row's group, the change that its file states, and the change that outputs show."""

    group: str
    stated: str
    shown: str


def renew_words(study: Study) -> Study:
    """The study with today's words, which are recorded. Rows that cannot be composed today keep theirs."""
    words = _words_of_today(study)
    if _with_words(study, words) == study:
        return study
    with FileLock(study.folder / ".locks" / "study"):
        renewed = _with_words(read_study(study.folder), words)
        write_study(renewed)
    return renewed


def _words_of_today(study: Study) -> dict[str, RowWords]:
    """By row; empty if the study's task or any of its rows cannot be read."""
    here = Path.cwd()
    try:
        record = read_record(study, source_of_study(study, here))
        composition = compose_sweep([by_name(study.folder), *placed(study.folder)], here, record)
    except RefusedError:
        return {}
    words: dict[str, RowWords] = {}
    for row in composition.rows:
        about = row.settings.row
        words[row.name] = RowWords(about.group, about.change, shown_change(row, composition.base))
    return words


def _with_words(study: Study, words: Mapping[str, RowWords]) -> Study:
    trials: list[StudyTrial] = []
    for trial in study.trials:
        today = words.get(trial.row, RowWords(trial.group, "", trial.change))
        trials.append(replace(trial, group=today.group, change=today.shown))
    rows = tuple(_row_with_words(row, words) for row in study.rows)
    return replace(study, trials=tuple(trials), rows=rows)


def _row_with_words(row: dict[str, Any], words: Mapping[str, RowWords]) -> dict[str, Any]:
    today = words.get(row["row"])
    return row if today is None else {**row, "group": today.group, "change": today.stated}
