"""A trial as MLflow shows it: its run's tags, params, numbers and datasets, and its model."""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tracking.attempts import AttemptRecord
from tracking.card import COSTS, DEVICE_COSTS, Card
from tracking.json_lines.journal import JournalLine
from tracking.mlflow import pages
from tracking.mlflow.ledger import IDENTITY
from tracking.mlflow.names import NAME_OF, changed, legal
from tracking.mlflow.runs import BEST, DELTA, LAST, PUBLISHED, TRAINING, Point, training_of
from tracking.provenance import prepared_place
from tracking.statistics.means import minus
from tracking.statistics.references import hosts_of, reference_of
from tracking.statistics.table_row import BASE, TableRow
from tracking.statistics.table_rows import table
from tracking.study import Study, StudyTrial, dotted
from tracking.trial import TrialFolder
from tracking.uri import MASK, is_secret, without_password
from tracking.words import stopped_at

# These belong to the machine or the sweep, or are hashes, which are tags. Settings for scoring are
# no params either: they may change, and then the trial is scored again.
NOT_PARAMS = frozenset({"paths", "cluster", "tracking", "sweep", "row", "key", "data_fingerprint"})
TAKEN_FROM = "sweep.taken_from"
CONTEXTS = {"train": "training", "dev": "validation", "test": "testing"}


@dataclass(frozen=True)
class Described:
    """A trial that has begun, read once."""

    study: Study
    trial: StudyTrial
    attempts: list[AttemptRecord]

    @cached_property
    def folder(self) -> TrialFolder:
        return self.study.trial_folder(self.trial)

    @cached_property
    def card(self) -> Card:
        return self.study.task

    @cached_property
    def journal(self) -> list[JournalLine]:
        """Every report. Raises DamagedFileError."""
        return self.folder.journal()

    @cached_property
    def config(self) -> dict[str, Any]:
        return self.folder.config() or {}

    @cached_property
    def provenance(self) -> dict[str, Any]:
        return self.folder.provenance()

    @cached_property
    def result(self) -> dict[str, Any] | None:
        """The result of a finished trial. None if its host now has different weights."""
        return self.study.standing(self.trial).result

    @cached_property
    def row(self) -> TableRow:
        """The trial as a row of the table. Its differences are from the mean over all seeds of
        its reference, or, if the trial only scores, from its host's trial of the same seed."""
        if self.trial.row != BASE:
            reference = trials_compared_with(self.study, self.trial)
            return self._rows_of(*reference, self.trial)[-1]
        (row,) = self._rows_of(self.trial)
        (base_row,) = self._rows_of(*base_of(self.study))
        deltas = {}
        for name in row.comparison.deltas:
            deltas[name] = minus(row.scores[name], base_row.scores[name])
        return replace(row, comparison=replace(row.comparison, deltas=deltas))

    def _rows_of(self, *trials: StudyTrial) -> list[TableRow]:
        """The table of these trials alone."""
        return table(replace(self.study, trials=trials))

    @property
    def name(self) -> str:
        return pages.run_names(self.study)[self.trial.key]

    @property
    def parts(self) -> dict[str, Any]:
        """The parts of its run that don't depend on reports or a result."""
        return {"params": self.params, "tags": self.tags, "datasets": self.datasets}

    def end_ms(self, newest: JournalLine | None) -> int:
        """When the last attempt ended; without a recorded end, the time of the ``newest`` report.

        Never before the first attempt began: the clock may have been set back.
        """
        last = self.attempts[-1]
        end = last.ended
        if end is None:
            end = max(last.began, newest.ts) if newest else last.began
        return to_ms(max(self.attempts[0].began, end))

    @property
    def identifying_tags(self) -> dict[str, str]:
        """The tags that identify the run in a store."""
        return {
            IDENTITY: self.study.mark,
            "sweep.id": self.study.name,
            "trial.key": self.trial.key,
            TRAINING: training_of(self.attempts),
            "kind": "trial",
        }

    @cached_property
    def tags(self) -> dict[str, str]:
        """Machine, code and settings for scoring are tags: tags may change, params not."""
        newest = self.attempts[-1]
        tags = self.identifying_tags | self._row_tags
        tags |= {
            "seed": str(self.trial.seed),
            "attempt": str(newest.number),
            "host": newest.process.host,
            "data.fingerprint": self.fingerprint,
        }
        if self.trial.weights:
            tags["weights"] = self.trial.weights
        for name in ("commit", "dirty", "device"):
            if name in self.provenance:
                tags[name] = str(self.provenance[name])
        source = self.folder.source()
        if source is not None:
            tags[TAKEN_FROM] = str(source)
        tags |= self._column_tags
        for name, value in self._scoring.items():
            tags[legal(name)] = value
        for name, name_in_mlflow in self.changed_names.items():
            tags[f"{NAME_OF}{name_in_mlflow}"] = name
        color = pages.color_of(self.study, self.trial)
        return tags | {"mlflow.runName": self.name, "mlflow.runColor": color}

    @property
    def _row_tags(self) -> dict[str, str]:
        """The row, its change, and its place in the table."""
        trial = self.trial
        rows = list(dict.fromkeys(planned.row for planned in self.study.trials))
        digits = max(2, len(str(len(rows))))  # so that MLflow sorts a hundred rows and more
        prefix = self.card.tags
        return {
            "row": trial.row,
            f"{prefix}.group": trial.group,
            f"{prefix}.row": f"{rows.index(trial.row) + 1:0{digits}d} {trial.row}",
            f"{prefix}.change": trial.change,
            # sorts runs as the table sorts rows
            f"{prefix}.order": f"{self.study.trials.index(trial) + 1:04d}",
            f"{prefix}.stopped_at": stopped_at(self.result).removeprefix("stopped at "),
        }

    @property
    def _column_tags(self) -> dict[str, str]:
        """MLflow's columns User, Source and Version."""
        task = self.provenance.get("task")
        return {
            "mlflow.user": owner(self.folder.attempts_path),
            "mlflow.source.name": task["source"] if task else "allelse",
            "mlflow.source.type": "LOCAL",
            "mlflow.source.git.commit": self.provenance.get("commit") or "",
        }

    @property
    def fingerprint(self) -> str:
        """The data's fingerprint; "" before the trial's workers have started."""
        return str(self.provenance.get("data_fingerprint") or "")

    @cached_property
    def params(self) -> dict[str, str]:
        """`config.yaml` flattened to dotted keys, without those that are null; {} without one."""
        return {legal(name): value for name, value in self._settings.items()}

    @cached_property
    def _settings(self) -> dict[str, str]:
        values = {name: value for name, value in self.config.items() if name not in NOT_PARAMS}
        settings = _texts(values)
        return {name: value for name, value in settings.items() if name not in self.card.scoring}

    @cached_property
    def changed_names(self) -> dict[str, str]:
        """The names of metrics and settings that differ in MLflow, each with its name there."""
        reported: set[str] = set()
        for line in self.journal:
            reported.update(line.metrics)
        curves = sorted(name for name in reported if pages.own_metric(self.card, name) is None)
        metrics = [metric.name for metric in self.card.metrics]
        names = [*metrics, *self._settings, *self._scoring]
        return changed(names, curves, pages.own_curves(self.card))

    @cached_property
    def _scoring(self) -> dict[str, str]:
        """The settings of the current scores, such as `decode.beam`, or the configured ones."""
        card = self.card
        configured = _texts(self.config)
        settings = {name: value for name, value in configured.items() if name in card.scoring}
        scores = self.result["scores"] if self.result is not None else {}
        if card.headline.set in scores:
            decode = card.scores(scores[card.headline.set]).decode
            settings |= _texts({card.setting(name): value for name, value in decode.items()})
        return settings

    @cached_property
    def numbers(self) -> list[Point]:
        """The points of a finished trial that are not in its journal."""
        if self.result is None:
            return []
        values = {name: self.result.get(name) for name in COSTS}
        for name in DEVICE_COSTS:
            if self.result.get(name) is not None:
                values[name] = self.result[name]
        for group, numbers in self._groups.items():
            for name, value in numbers.items():
                values[legal(f"{group}/{name}")] = value
        values |= self._scores
        values |= self._compared
        ended_ms = self.end_ms(self.journal[-1] if self.journal else None)
        return points_of(values, ended_ms, self.result["step"]) + self._extremes()

    @cached_property
    def datasets(self) -> list[dict[str, str]]:
        """The data of training and of every scored set, with the number of samples where it is
        known.

        The source is the folder of the prepared data, on the machine of the sweep; without one,
        ``paths.data``.
        """
        sizes: dict[str, int | None] = {"train": None}
        for group in self._groups.values():
            if isinstance(group.get("train"), int):
                sizes["train"] = group["train"]
                break
        if self.result is None:
            return [] if sizes["train"] is None else [self._dataset("train", sizes["train"])]
        for set_name in self.result["scores"]:
            sizes[set_name] = self.folder.samples_of(set_name)
        return [self._dataset(set_name, size) for set_name, size in sizes.items()]

    def _dataset(self, set_name: str, size: int | None) -> dict[str, str]:
        """The fields of MLflow's entity, and its context."""
        data = self.config.get("data")
        name = data.get("name") if isinstance(data, dict) else None
        folder = Path(str(self.config.get("paths", {}).get("data"))).absolute()
        code = str(self.provenance.get("code") or "")
        prepared = prepared_place(folder, self.card.name, self.fingerprint, code)
        if prepared.is_dir():
            folder = prepared
        return {
            "name": f"{name or self.card.name}/{set_name}",
            "digest": hashlib.sha256(f"{self.fingerprint} {size}".encode()).hexdigest()[:12],
            "source_type": "local",
            "source": json.dumps({"uri": folder.as_uri()}),
            "profile": json.dumps({"num_rows": size} if size is not None else {}),
            "context": CONTEXTS.get(set_name, "evaluation"),
        }

    @property
    def model(self) -> dict[str, Any]:
        """MLflow's fields for the trained model, with its final numbers; {} before the end."""
        if self.result is None:
            return {}
        points = [point for point in self.numbers if not point.name.startswith(pages.NOT_OF_MODEL)]
        return {
            "name": re.sub(r"""[/:.%"']""", "-", f"{self.study.name} {self.trial.name}"),
            "model_type": self.card.name,
            "params": self.params,
            "tags": {name: value for name, value in self._column_tags.items() if value},
            "points": points,
        }

    @property
    def _groups(self) -> dict[str, dict[str, Any]]:
        """Groups of numbers that the task added to provenance.json."""
        groups = {}
        for name, values in self.provenance.items():
            if isinstance(values, dict) and all(map(_is_number, values.values())):
                groups[name] = values
        return groups

    @property
    def _scores(self) -> dict[str, Any]:
        """Such as `final/accuracy`, with all digits, as in `result.json`."""
        assert self.result is not None
        values = {}
        for set_name, scores in self.result.get("scores", {}).items():
            for metric, value in self.card.scores(scores).values.items():
                values[pages.final_name(self.card, set_name, metric)] = value
        return values

    @property
    def _compared(self) -> dict[str, Any]:
        """`delta/<metric>`: the run's difference from its row's reference. `published/<name>`, in
        millions for `params_m`, and `published/delta/<metric>` from the published base."""
        row = self.row
        values = dict[str, Any]()
        for name, value in row.comparison.deltas.items():
            values[f"{DELTA}{legal(name)}"] = value
        for name, value in row.published.items():
            values[f"{PUBLISHED}{legal(name)}"] = value
        for name, value in row.comparison.published_deltas.items():
            values[f"{pages.PUBLISHED_DELTA}{legal(name)}"] = value
        return values

    def _extremes(self) -> list[Point]:
        """`best/<metric>` and `last/<metric>` of each `val/<metric>`, at their steps. The first of
        equal values is the best."""
        points = list[Point]()
        for metric in self.card.metrics:
            name = legal(metric.name)
            curve = [point for point in self._journal_points if point.name == f"{pages.VAL}{name}"]
            best = metric.best(point.value for point in curve)
            if best is not None:
                best_point = next(point for point in curve if point.value == best)
                points.append(best_point._replace(name=f"{BEST}{name}"))
                points.append(curve[-1]._replace(name=f"{LAST}{name}"))
        return points

    @cached_property
    def _journal_points(self) -> list[Point]:
        points = list[Point]()
        for report in self.journal:
            points += journal_points(self.card, report)
        return points


def owner(path: Path) -> str:
    """The user that a file belongs to; "" for one without a name."""
    with suppress(OSError, KeyError):
        return path.owner()
    return ""


def base_of(study: Study) -> tuple[StudyTrial, ...]:
    """All trials of base."""
    return _trials_of(study, BASE)


def trials_compared_with(study: Study, trial: StudyTrial) -> tuple[StudyTrial, ...]:
    """All trials of the row with which the table compares this trial's row."""
    own_reference = study.references.get(trial.row, BASE)
    reference = reference_of(trial.row, own_reference, hosts_of(study), study.paired)
    return _trials_of(study, reference.row)


def compared_trials(study: Study, trial: StudyTrial) -> list[StudyTrial]:
    """The trials whose results change what the run of this trial shows."""
    trials = list(base_of(study))
    if trial.row in study.references:
        trials += trials_compared_with(study, trial)
    host = study.host(trial)
    return [*trials, host] if host else trials


def _trials_of(study: Study, row: str) -> tuple[StudyTrial, ...]:
    return tuple(trial for trial in study.trials if trial.row == row)


def journal_points(card: Card, report: JournalLine) -> list[Point]:
    return points_of(pages.points_in(card, report), to_ms(report.ts), report.step)


def points_of(values: Mapping[str, Any], ts_ms: int, step: int) -> list[Point]:
    """A point for each value that is a number."""
    points = []
    for name, value in values.items():
        if _is_number(value):
            points.append(Point(name, float(value), ts_ms, step))
    return points


def to_ms(seconds: float) -> int:
    """The time of MLflow's interface."""
    return round(seconds * 1000)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _texts(config: Mapping[str, Any]) -> dict[str, str]:
    """By dotted key, without values that are null and without secrets."""
    texts: dict[str, str] = {}
    for key, value in dotted(config).items():
        if value is not None and is_secret(key):
            texts[key] = MASK
        elif value is not None:
            # existing runs have no mark instead of a password
            texts[key] = without_password(str(value), mark="")
    return texts
