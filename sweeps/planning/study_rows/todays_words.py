"""A study with today's words: a row's `change:` may be edited while its file still trains the same
model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from sweeps.config.files import TASKS
from sweeps.config.library import Library
from sweeps.config.schema import Schema, one_line
from sweeps.config.tasks import OURS
from sweeps.planning.study_rows.compose import compose_row
from sweeps.planning.study_rows.composed_rows import Composition
from sweeps.planning.study_rows.row_words import shown_change
from sweeps.planning.study_rows.study_record import (
    StudyRecord,
    decides_weights,
    read_record,
    values_of,
)
from sweeps.planning.study_rows.task_choice import source_of_study
from sweeps.problems import RefusedError
from tracking.study import Study, read_study, record_lock, write_study


@dataclass(frozen=True)
class Words:
    """What tables say of a row: its own words, those at its full size, and what the table shows."""

    change: str
    before_scaling: str
    in_table: str


def with_todays_words(study: Study, here: Path) -> Study:
    """The study with the words of its rows' files in ``here``, unless a file now trains something
    else."""
    edited = [
        row["row"] for row in study.rows if _is_edited(study, row["row"], row["change"], here)
    ]
    if not edited:
        return study
    try:
        record = read_record(study, source_of_study(study, here))
        composition = compose_row([], Library(record.source, here), record)
    except RefusedError:  # `plan` says what is wrong there
        return study
    todays_words = {}
    for name in edited:
        words = _words(composition, record, name)
        if words is not None:
            todays_words[name] = words
    return _with_words(study, todays_words)


def record_words(study: Study) -> None:
    """Write the words of ``with_todays_words`` into `study.json`, from which a tracker takes
    them."""
    in_table = {trial.row: trial.change for trial in study.trials}
    words = {
        row["row"]: Words(row["change"], row["before_scaling"], in_table[row["row"]])
        for row in study.rows
        if row["row"] in in_table
    }
    with record_lock(study.folder):
        recorded = read_study(study.folder)
        updated = _with_words(recorded, words)
        if updated != recorded:
            write_study(updated)


def _is_edited(study: Study, row: str, recorded_change: str, here: Path) -> bool:
    """Whether the row's file in ``here`` has other words than the study's record."""
    name = study.task.name
    folder = Path() if name in OURS else Path(TASKS, name)
    try:
        file = here / "conf" / folder / "row" / f"{row}.yaml"
        change = yaml.safe_load(file.read_text("utf-8-sig"))["row"]["change"]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return False
    return isinstance(change, str) and one_line(change) != one_line(str(recorded_change))


def _words(composition: Composition, record: StudyRecord, name: str) -> Words | None:
    """Today's words; None if the row's file has another model by now."""
    schema = Schema.of(record.source.task)
    row = next(row for row in composition.rows if row.name == name)
    values = values_of(row.settings)
    recorded = record.settings | record.rows[name].values
    for key, recorded_value in recorded.items():
        if decides_weights(schema, key) and values.get(key) != recorded_value:
            return None
    return Words(row.settings.row.change, row.before_scaling, shown_change(row, composition.base))


def _with_words(study: Study, words: Mapping[str, Words]) -> Study:
    """The study with these words by row."""
    rows = []
    for row in study.rows:
        row_words = words.get(row["row"])
        if row_words is not None:
            row = {
                **row,
                "change": row_words.change,
                "before_scaling": row_words.before_scaling,
            }
        rows.append(row)
    trials = []
    for trial in study.trials:
        trial_words = words.get(trial.row)
        if trial_words is not None:
            trial = replace(trial, change=trial_words.in_table)
        trials.append(trial)
    return replace(study, rows=tuple(rows), trials=tuple(trials))
