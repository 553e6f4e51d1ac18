"""Words of today for a recorded study: a row's `change:` may be edited while its file still trains
the same model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from sweeps.config.files import TASKS
from sweeps.config.schema import Schema, one_line
from sweeps.config.tasks import OURS
from sweeps.planning.compose import compose_row, source_of_study
from sweeps.planning.composition import (
    Composition,
    StudyRecord,
    decides_weights,
    read_record,
    shown_change,
    values_of,
)
from sweeps.schema import RefusedError
from tracking.study import Study, StudyTrial, read_study, write_study


@dataclass(frozen=True)
class Words:
    """What tables say of a row: its own words, those at its full size, and what the table shows."""

    change: str
    before_scaling: str
    shown: str


def with_todays_words(study: Study, here: Path) -> Study:
    """The study with the words of its rows' files in ``here``, where these decide what the record
    says."""
    edited = list[str]()
    for row in study.rows:
        change = _change_in_file(study, row["row"], here)
        if change is not None and one_line(change) != one_line(str(row["change"])):
            edited.append(row["row"])
    if not edited:
        return study
    try:
        record = read_record(study, source_of_study(study, here))
        composition = compose_row([], here, record)
    except RefusedError:  # `plan` says what is wrong there
        return study
    words = {name: _words(composition, record, name) for name in edited}
    return _with(study, {name: of for name, of in words.items() if of is not None})


def record_words(study: Study) -> None:
    """Write the words of ``with_todays_words`` into `study.json`, from which a tracker takes
    them."""
    shown = {trial.row: trial.change for trial in study.trials}
    words = {
        row["row"]: Words(row["change"], row["before_scaling"], shown[row["row"]])
        for row in study.rows
        if row["row"] in shown
    }
    with FileLock(study.folder / ".locks" / "study"):
        now = read_study(study.folder)
        if (updated := _with(now, words)) != now:
            write_study(updated)


def _change_in_file(study: Study, row: str, here: Path) -> str | None:
    """The row's own words, as its file in ``here`` has them; None without such a file."""
    name = study.task.name
    place = Path() if name in OURS else Path(TASKS, name)
    try:
        file = here / "conf" / place / "row" / f"{row}.yaml"
        change = yaml.safe_load(file.read_text("utf-8-sig"))["row"]["change"]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return None
    return change if isinstance(change, str) else None


def _words(composition: Composition, record: StudyRecord, name: str) -> Words | None:
    """None if the file decides something else by now."""
    schema = Schema.of(record.source.task)
    row = next(each for each in composition.rows if each.name == name)
    now = values_of(row.settings)
    recorded = record.settings | record.rows[name].values
    deciding = [key for key in recorded if decides_weights(schema, key)]
    if any(now.get(key) != recorded[key] for key in deciding):
        return None
    return Words(row.settings.row.change, row.before_scaling, shown_change(row, composition.base))


def _with(study: Study, words: Mapping[str, Words]) -> Study:
    """The study with these words by row."""

    def row_with(row: dict[str, Any]) -> dict[str, Any]:
        of = words.get(row["row"])
        return (
            row if of is None else row | {"change": of.change, "before_scaling": of.before_scaling}
        )

    def trial_with(trial: StudyTrial) -> StudyTrial:
        of = words.get(trial.row)
        return trial if of is None else replace(trial, change=of.shown)

    return replace(
        study,
        rows=tuple(row_with(row) for row in study.rows),
        trials=tuple(trial_with(trial) for trial in study.trials),
    )
