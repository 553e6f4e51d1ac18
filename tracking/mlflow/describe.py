"""A trial as MLflow shows it: the tags, params, numbers and datasets of its run, and its model."""

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
from tracking.journal import JournalLine
from tracking.mlflow import pages
from tracking.mlflow.ledger import IDENTITY
from tracking.mlflow.names import NAME_OF, changed, legal
from tracking.mlflow.runs import BEST, DELTA, LAST, PUBLISHED, TRAINING, Point, training_of
from tracking.provenance import prepared_place
from tracking.statistics.means import minus
from tracking.statistics.references import hosts_of
from tracking.statistics.table_rows import BASE, TableRow, table
from tracking.study import Study, StudyTrial
from tracking.trial import TrialFolder
from tracking.uri import MASK, is_secret, without_password
from tracking.words import stopped_at

# These belong to the machine or the whole sweep, or are hashes, which are tags. Settings for
# scoring may also change: a trial is then scored again.
NOT_PARAMS = frozenset({"paths", "cluster", "tracking", "sweep", "row", "key", "data_fingerprint"})
TAKEN_FROM = "sweep.taken_from"
CONTEXTS = {"train": "training", "dev": "validation", "test": "testing"}


@dataclass(frozen=True)
class Described:
    """One trial that has begun, read once."""

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
        """Of a finished trial. Scores of other weights than its host has now are none."""
        return self.study.standing(self.trial).result

    @cached_property
    def row(self) -> TableRow:
        """The trial as a row of the table: its differences are from the mean over all seeds of
        base.

        Of a trial that only scores, they are from its host's trial of the same seed."""
        base = base_of(self.study)
        host = hosts_of(self.study).get(self.trial.row, BASE)
        if self.trial.row != BASE:
            reference = tuple(trial for trial in self.study.trials if trial.row == host)
            return table(replace(self.study, trials=(*reference, self.trial)))[-1]
        own, whole = (table(replace(self.study, trials=of))[0] for of in ((self.trial,), base))
        return replace(
            own, deltas={name: minus(own.scores[name], whole.scores[name]) for name in own.deltas}
        )

    @property
    def name(self) -> str:
        return pages.run_names(self.study)[self.trial.key]

    def end_ms(self, newest: JournalLine | None) -> int:
        """When the last attempt ended; without a recorded end, the time of the ``newest`` report.

        Never before the first one began: the clock may have been set back.
        """
        last = self.attempts[-1]
        end = max(last.began, newest.ts if newest else 0.0) if last.ended is None else last.ended
        return to_ms(max(self.attempts[0].began, end))

    @property
    def found_by(self) -> dict[str, str]:
        """The tags by which the run is found again."""
        return {
            IDENTITY: self.study.mark,
            "sweep.id": self.study.name,
            "trial.key": self.trial.key,
            TRAINING: training_of(self.attempts),
            "kind": "trial",
        }

    @cached_property
    def tags(self) -> dict[str, str]:
        """Machine, code and settings for scoring are tags: tags may change between attempts, params
        may not."""
        trial = self.trial
        about = self.card.tags
        newest = self.attempts[-1]
        rows = list(dict.fromkeys(other.row for other in self.study.trials))
        digits = max(2, len(str(len(rows))))  # so that MLflow sorts a hundred rows and more
        return {
            **self.found_by,
            "row": trial.row,
            f"{about}.group": trial.group,
            f"{about}.row": f"{rows.index(trial.row) + 1:0{digits}d} {trial.row}",
            f"{about}.change": trial.change,
            f"{about}.order": f"{self.study.trials.index(trial) + 1:04d}",  # sorts runs as the table sorts rows
            f"{about}.stopped_at": stopped_at(self.result).removeprefix("stopped at "),
            "seed": str(trial.seed),
            "attempt": str(newest.number),
            **({"weights": trial.weights} if trial.weights else {}),
            "host": newest.process.host,
            **{
                name: str(self.provenance[name])
                for name in ("commit", "dirty", "device")
                if name in self.provenance
            },
            "data.fingerprint": self.fingerprint,
            **self._source,
            **self._columns,
            **{legal(name): value for name, value in self._scoring.items()},
            **{f"{NAME_OF}{in_mlflow}": name for name, in_mlflow in self.changed_names.items()},
            "mlflow.runName": self.name,
            "mlflow.runColor": pages.color_of(self.study, trial),
        }

    @property
    def _source(self) -> dict[str, str]:
        """The trial of another study from which it was taken."""
        source = self.folder.source()
        return {} if source is None else {TAKEN_FROM: str(source)}

    @property
    def _columns(self) -> dict[str, str]:
        """MLflow's columns User, Source and Version."""
        own = self.provenance.get("task")
        return {
            "mlflow.user": owner(self.folder.attempts_path),
            "mlflow.source.name": own["source"] if own else "allelse",
            "mlflow.source.type": "LOCAL",
            "mlflow.source.git.commit": self.provenance.get("commit") or "",
        }

    @property
    def fingerprint(self) -> str:
        """Of the data; "" before the trial's workers have started."""
        return str(self.provenance.get("data_fingerprint") or "")

    @cached_property
    def params(self) -> dict[str, str]:
        """`config.yaml` flattened to dotted keys, without those that are null; {} without one."""
        return {legal(name): value for name, value in self._settings.items()}

    @cached_property
    def _settings(self) -> dict[str, str]:
        flat = _flatten({name: of for name, of in self.config.items() if name not in NOT_PARAMS})
        return {name: value for name, value in flat.items() if name not in self.card.scoring}

    @cached_property
    def changed_names(self) -> dict[str, str]:
        """The names of metrics and settings that are others in MLflow, each with its name there."""
        reported = {name for line in self.journal for name in line.metrics}
        others = sorted(name for name in reported if pages.own_metric(self.card, name) is None)
        metrics = [metric.name for metric in self.card.metrics]
        return changed([*metrics, *self._settings, *self._scoring], others)

    @cached_property
    def _scoring(self) -> dict[str, str]:
        """`decode.beam` and the like, of the current scores. What these do not name is that of the
        configuration."""
        card = self.card
        scores = self.result["scores"] if self.result is not None else {}
        configured = {
            name: value for name, value in _flatten(self.config).items() if name in card.scoring
        }
        if card.headline.set not in scores:
            return configured
        settings = card.scores(scores[card.headline.set]).decode
        return configured | _flatten(
            {card.setting(name): value for name, value in settings.items()}
        )

    @cached_property
    def numbers(self) -> list[Point]:
        """The points of a finished trial that are not its journal's."""
        if self.result is None:
            return []
        costs = {name: self.result.get(name) for name in COSTS}
        counts = {
            legal(f"{group}/{name}"): value
            for group, of in self._groups.items()
            for name, value in of.items()
        }
        values = {**costs, **self._device_costs, **counts, **self._scores, **self._compared}
        ended_ms = self.end_ms(self.journal[-1] if self.journal else None)
        return points_of(values, ended_ms, self.result["step"]) + self._extremes()

    @property
    def _device_costs(self) -> dict[str, float]:
        """FLOPs as the paper counts them, and MFU, where the result has them."""
        known = self.result or {}
        return {name: known[name] for name in DEVICE_COSTS if known.get(name) is not None}

    @cached_property
    def datasets(self) -> list[dict[str, str]]:
        """The data of training and of every scored set, with the number of samples where it is
        known.

        The source is the folder of the prepared data, on the machine of the sweep; without one,
        ``paths.data``.
        """
        counts = (
            group["train"] for group in self._groups.values() if isinstance(group.get("train"), int)
        )
        sizes = {"train": next(counts, None)}
        sizes |= {
            on: self.folder.samples_of(on) for on in (self.result or {"scores": {}})["scores"]
        }
        known = {
            on: size for on, size in sizes.items() if size is not None or self.result is not None
        }
        return [self._dataset(on, size) for on, size in known.items()]

    def _dataset(self, on: str, size: int | None) -> dict[str, str]:
        """As MLflow's entity takes it, with its context."""
        data = self.config.get("data")
        place = Path(str(self.config.get("paths", {}).get("data"))).absolute()
        name = data.get("name") if isinstance(data, dict) else None
        code = str(self.provenance.get("code") or "")
        prepared = prepared_place(place, self.card.name, self.fingerprint, code)
        return {
            "name": f"{name or self.card.name}/{on}",
            "digest": hashlib.sha256(f"{self.fingerprint} {size}".encode()).hexdigest()[:12],
            "source_type": "local",
            "source": json.dumps({"uri": (prepared if prepared.is_dir() else place).as_uri()}),
            "profile": json.dumps({"num_rows": size} if size is not None else {}),
            "context": CONTEXTS.get(on, "evaluation"),
        }

    @property
    def model(self) -> dict[str, Any]:
        """The trained model as MLflow's entity takes it, with its final numbers; {} before the
        end."""
        if self.result is None:
            return {}
        name = re.sub(r"""[/:.%"']""", "-", f"{self.study.name} {self.trial.name}")
        final = [point for point in self.numbers if not point.name.startswith(pages.OF_OTHERS)]
        tags = {name: self.tags[name] for name in self._columns if self.tags[name]}
        return {
            "name": name,
            "model_type": self.card.name,
            "params": self.params,
            "tags": tags,
            "points": final,
        }

    @property
    def _groups(self) -> dict[str, dict[str, Any]]:
        """Groups of numbers that the task added to provenance.json."""
        groups = {name: of for name, of in self.provenance.items() if isinstance(of, dict)}
        return {name: of for name, of in groups.items() if all(map(_is_number, of.values()))}

    @property
    def _scores(self) -> dict[str, Any]:
        """Such as `final/accuracy`, with all digits, as `result.json` and `allelse table --format
        json` have them."""
        assert self.result is not None
        known = [
            (on, self.card.scores(scores).values)
            for on, scores in self.result.get("scores", {}).items()
        ]
        return {
            pages.final_name(self.card, on, name): value
            for on, values in known
            for name, value in values.items()
        }

    @property
    def _compared(self) -> dict[str, Any]:
        """`delta/<metric>`: the run minus the mean over all seeds of base. `published/<name>`, in
        millions for `params_m`, and `published/delta/<metric>` from the published base."""
        kinds = {
            DELTA: self.row.deltas,
            PUBLISHED: self.row.published,
            pages.PUBLISHED_DELTA: self.row.published_deltas,
        }
        return {
            f"{kind}{legal(name)}": value
            for kind, of in kinds.items()
            for name, value in of.items()
        }

    def _extremes(self) -> list[Point]:
        """`best/<metric>` and `last/<metric>` of each `val/<metric>`, at their steps; of equals the
        first."""
        named = [(pages.points_in(self.card, line), line) for line in self.journal]
        found = list[Point]()
        for metric in self.card.metrics:
            in_mlflow = legal(metric.name)
            name = f"{pages.VAL}{in_mlflow}"
            values = [(values[name], line) for values, line in named if name in values]
            best = metric.best(value for value, _ in values)
            if best is not None:
                ends = {BEST: next(each for each in values if each[0] == best), LAST: values[-1]}
                for kind, (value, line) in ends.items():
                    found += points_of({f"{kind}{in_mlflow}": value}, to_ms(line.ts), line.step)
        return found


def owner(path: Path) -> str:
    """The user that a file belongs to; "" for one without a name."""
    with suppress(OSError, KeyError):
        return path.owner()
    return ""


def base_of(study: Study) -> tuple[StudyTrial, ...]:
    """All trials of base."""
    return tuple(trial for trial in study.trials if trial.row == BASE)


def journal_points(card: Card, report: JournalLine) -> list[Point]:
    return points_of(pages.points_in(card, report), to_ms(report.ts), report.step)


def points_of(values: Mapping[str, Any], ts_ms: int, step: int) -> list[Point]:
    """A point per number; what is no number is left out."""
    return [
        Point(name, float(value), ts_ms, step)
        for name, value in values.items()
        if _is_number(value)
    ]


def to_ms(seconds: float) -> int:
    return round(seconds * 1000)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _flatten(config: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{name}.")
        elif value is not None:
            shown = (
                MASK if is_secret(name) else without_password(str(value), mark="")
            )  # existing runs have this form
            flat[f"{prefix}{name}"] = shown
    return flat
