"""Where each trial of a study stands, from its folders alone: as JSON, one object per trial."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from sweeps.planning.recorded import nested, read_record
from sweeps.planning.schema import Schema
from sweeps.planning.task_named import source_of_study
from tracking.lag import Lag
from tracking.look import Look, look
from tracking.study import Study, Trial
from transformer.schema import RefusedError

RowConfig = Callable[[str], tuple[int | None, dict[str, Any] | None]]


def status_json(study: Study, lag: Lag) -> list[dict[str, Any]]:
    """One object per trial, in the order of the table."""
    rows = _Rows(study)
    return [_line(study, trial, look(study.trial_folder(trial), trial.key), rows, lag) for trial in study.trials]


def _line(study: Study, trial: Trial, seen: Look, rows: "_Rows", lag: Lag) -> dict[str, Any]:
    headline, steps = study.task.headline, rows.steps(trial.row)
    return {
        "row": trial.row,
        "seed": trial.seed,
        "key": trial.key,
        "state": "to score again" if rows.scores_differ(trial.row, seen.result) else seen.state,
        "step": seen.newest.step if seen.newest else None,
        "steps": steps,
        "seconds_left": seen.seconds_left(steps) if seen.state == "running" else None,
        "attempts": len(seen.attempts),
        f"{headline.set}_{headline.name}": seen.score,
        "synced_step": lag.steps.get(trial.key),
        "note": seen.note,
    }


class _Rows:
    """What the study says of its rows today, each composed once; nothing if its task cannot be imported from here."""

    def __init__(self, study: Study) -> None:
        try:
            self._config = _configs(study)
        except RefusedError:
            self._config = lambda row: (None, None)

    def steps(self, row: str) -> int | None:
        """How many steps its trials have."""
        return self._config(row)[0]

    def scores_differ(self, row: str, result: dict[str, Any] | None) -> bool:
        """Whether a finished trial was scored with other settings than the study has now."""
        scoring = self._config(row)[1]
        if result is None or scoring is None:
            return False
        return any(scores["decode"] != scoring for scores in result["scores"].values())


def _configs(study: Study) -> RowConfig:
    """The steps and the settings for scoring of each row. Raises RefusedError."""
    source = source_of_study(study, Path.cwd())
    record, schema = read_record(study, source), Schema.of(source.task)

    @cache
    def known(row: str) -> tuple[int | None, dict[str, Any] | None]:
        try:
            config = schema.config(nested(record.expected(row, record.settings) or record.settings))
        except RefusedError:
            return None, None
        return schema.task.steps(config), schema.scoring(config) if study.settings else None

    return known
