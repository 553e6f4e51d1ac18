"""The rows of the study's table: means over seeds that did not diverge, differences from base,
published values.

Scores omit a setting for scoring, such as `decode.beam`, while it has its neutral value. So an
absent setting is a value, and takes part in comparisons.
"""

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from tracking.activity.unfinished_trials import note_on, seeds_of_errors, unfinished_trials
from tracking.card import COSTS, DEVICE_COSTS, Card, Metric
from tracking.statistics.comparable_scores import comparable_within, why_not_compared
from tracking.statistics.references import RowReference, hosts_of, reference_of
from tracking.study import Standing, Study
from tracking.words import known_step, stopped_at, sustained

BASE = "base"
ABSENT = "default"
"""The value of an omitted setting. Only `transformer` defines the neutral value itself."""
ROUNDING = 2.0**-48
"""Relative error of a mean as a float holds it, at most: no smaller difference is measured."""
ScoringSettings = dict[str, list[Any]]
"""For scoring, of one row: each setting with every value once. One value, unless the row's seeds
differ; none without scores."""


def over_seeds(
    decodes: Sequence[Mapping[str, Any]], names: Iterable[str] | None = None
) -> ScoringSettings:
    """From the settings of each seed; of these ``names``, or of all that any seed has."""
    own = (name for decode in decodes for name in decode)
    return {
        name: _once(each.get(name, ABSENT) for each in decodes)
        for name in dict.fromkeys(names or own)
    }


def agreed(settings: ScoringSettings) -> dict[str, Any]:
    """The settings that all seeds have with one value."""
    return {name: values[0] for name, values in settings.items() if len(values) == 1}


def _over_rows(
    card: Card, rows: Mapping[str, Sequence[Standing]], reference: str
) -> dict[str, ScoringSettings]:
    """The settings of every row, the reference first."""
    ordered = sorted(rows, key=lambda row: row != reference)
    decodes = {row: _settings(card, _counted(rows[row])) for row in ordered}
    names = [name for decode in decodes.values() for each in decode for name in each]
    return {row: over_seeds(of, names) for row, of in decodes.items()}


def _decode_note(
    card: Card, settings: ScoringSettings, other: Mapping[str, Any], usual: Mapping[str, Any]
) -> str:
    """Such as "decode.alpha 1.0, not 0.6; seeds mix decode.beam 4, 8"."""
    differs = [f"{card.setting(name)} {value}, not {usual[name]}" for name, value in other.items()]
    mixed = [
        (card.setting(name), ", ".join(map(str, of)))
        for name, of in settings.items()
        if len(of) > 1
    ]
    return "; ".join([*differs, *(f"seeds mix {name} {values}" for name, values in mixed)])


def _once(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += [] if value in found else [value]
    return found


@dataclass(frozen=True)
class TableRow:
    """One row: the mean over its finished seeds, without those that diverged.

    None means no number; `note` explains our own missing numbers.

    Scores and differences are by the name of each metric in the table. A finished row's cost of
    None is unknown.
    """

    row: str
    group: str
    change: str
    seeds: int  # finished ones that did not diverge
    asked: int  # all seeds of the row in the study
    steps: float | None
    scores: dict[str, float | None]
    params: float | None
    flops: float | None  # of the whole training run
    seconds: float | None
    cpu_seconds: float | None
    device_flops: float | None  # as the paper counts them
    mfu: float | None  # from 0 to 1
    published: dict[str, float | None]  # of the metrics, and params_m (millions)
    deltas: dict[str, float | None]  # from the mean over all seeds of our own reference row
    published_deltas: dict[str, float | None]  # the published row from the published reference row
    cells: dict[str, object]
    decode: dict[str, Any]  # the settings for scoring on which all seeds agree
    mixed_decode: tuple[str, ...]  # the other settings: a score that they change has no mean
    other_decode: tuple[
        str, ...
    ]  # unlike the reference, not by the row's own change: no difference
    before_scaling: str  # the change before scaling, if scaling touches it
    seed_values: dict[
        str, dict[int, float | None]
    ]  # of each metric and seed behind the mean; None: not finite
    diverged: tuple[int, ...]  # finished seeds that diverged
    sd: dict[str, float | None]  # of the values of the seeds; None under two seeds
    within: dict[
        str, tuple[str, ...]
    ]  # of each metric, within what its seeds can be compared; each value once
    not_compared: dict[
        str, str
    ]  # of each metric without a difference from the reference: why, if scores are unlike
    stopped: tuple[int, ...]  # finished seeds whose training ended before its steps
    size: str  # in words, where the model is of another size than base's although the row changes no size; or ""
    reference_seeds: tuple[
        int, ...
    ]  # finished ones of the reference that did not diverge; () without a reference
    common_deltas: dict[
        str, float | None
    ]  # differences between means over the seeds that both have
    note: str  # missing | FAILED: why | damaged: file | running | interrupted | "2 of 3 seeds; …" | diverged seeds | ""
    brief: str  # the note without causes of errors
    errors: dict[str, tuple[int, ...]]  # seeds by error, such as "FAILED: ValueError: no"
    sustained: tuple[str, ...]  # in words, how it is known what the devices sustain
    weights: str  # the row whose weights it scores; "": its own
    reference: str  # the row from which it differs: its host's, if it only scores
    shares_weights: bool  # with that row
    paired: bool  # whether differences are taken seed by seed, at the seeds that both have

    @property
    def status(self) -> str:
        """The text in place of a number: FAILED, damaged, missing, running, interrupted or "not
        finite"."""
        return "not finite" if self.seeds else re.split("[:;]", self.note)[0].partition(" (")[0]

    @property
    def finished_seeds(self) -> tuple[int, ...]:
        """Those behind its means."""
        return next((tuple(seed_value) for seed_value in self.seed_values.values()), ())

    @property
    def has_other_seeds(self) -> bool:
        """Whether its means are over other seeds than those of the reference."""
        return self.finished_seeds != self.reference_seeds

    @property
    def common_seeds(self) -> tuple[int, ...]:
        """The seeds that the reference has, too."""
        return tuple(seed for seed in self.finished_seeds if seed in self.reference_seeds)


def table(study: Study, reference: str = BASE) -> list[TableRow]:
    """Every row of the study in its order, from `study.json` and the trials' files alone.

    Differences are from the row called ``reference``."""
    rows: dict[str, list[Standing]] = {}
    for standing in study.standings():
        rows.setdefault(standing.trial.row, []).append(standing)
    settings = _over_rows(study.task, rows, reference)
    usual: dict[str, Any] = {}  # each setting's value in the first row whose seeds agree on it
    for of_row in settings.values():
        usual = agreed(of_row) | usual
    measured = {row: _measured(study, seen, settings[row]) for row, seen in rows.items()}
    measured = _with_within(study, measured, rows)
    hosts = hosts_of(study)
    measured = {name: replace(row, weights=hosts.get(name, "")) for name, row in measured.items()}
    compared = list[TableRow]()
    for name, row in measured.items():
        row_reference = reference_of(name, reference, hosts, study.paired)
        usual_of_row = usual
        if row_reference.shares_weights:
            usual_of_row = usual | agreed(settings.get(row_reference.row, {}))
        compared.append(
            _compared(study, row, row_reference, measured, settings[name], usual_of_row)
        )
    return compared


def _with_within(
    study: Study, measured: Mapping[str, TableRow], rows: Mapping[str, Sequence[Standing]]
) -> dict[str, TableRow]:
    """The rows, each with the values within which it can be compared."""
    trials = {
        standing.trial.name: (study.trial_folder(standing.trial), standing.counted)
        for standings in rows.values()
        for standing in standings
        if standing.counted is not None
    }
    within = {metric.name: comparable_within(metric, trials) for metric in study.task.tabled}
    return {
        name: replace(row, within=_row_within(rows[name], within)) for name, row in measured.items()
    }


def _row_within(
    standings: Sequence[Standing], within: Mapping[str, Mapping[str, str]]
) -> dict[str, tuple[str, ...]]:
    """Of each metric the values of the row's trials, each once."""
    names = [standing.trial.name for standing in standings]
    row_within = {}
    for metric, value_of_trial in within.items():
        row_within[metric] = tuple(
            _once(value_of_trial[name] for name in names if name in value_of_trial)
        )
    return row_within


def decode_of(rows: Iterable[TableRow]) -> dict[str, Any]:
    """The settings for scoring with which rows are compared: those of base, or of the first row
    that matches all."""
    return next(
        (
            row.decode
            for row in rows
            if row.decode and not row.mixed_decode and not row.other_decode
        ),
        {},
    )


def _measured(study: Study, seen: Sequence[Standing], settings: ScoringSettings) -> TableRow:
    """A row by itself, without its differences from another one. A metric that any seed lacks has
    no mean."""
    first = seen[0].trial
    card = study.task
    counted = _counted(seen)
    names = [metric.name for metric in card.tabled]
    diverged = {each.trial.seed: each.diverged for each in seen if each.diverged is not None}
    values = {each.name: _values(each, counted) for each in card.tabled}
    mixed = tuple(name for name, of in settings.items() if len(of) > 1)
    shared = {
        each.name: [*values[each.name].values()]
        for each in card.tabled
        if not each.decided_by(mixed)
    }
    empty: dict[str, float | None] = dict.fromkeys(names)
    texts = {seed: text for seed, result in sorted(counted.items()) if (text := stopped_at(result))}
    unfinished = unfinished_trials(study, seen)
    more = _joined(_diverged(diverged, len(counted)), _stops(texts))
    return TableRow(
        row=first.row,
        group=first.group,
        change=first.change,
        seeds=len(counted),
        asked=len(seen),
        steps=mean([known_step(result) for result in counted.values()]),
        scores=empty
        | {
            each.name: metric_mean(each, shared[each.name])
            for each in card.tabled
            if each.name in shared
        },
        **{
            name: mean([result.get(name) for result in counted.values()])
            for name in (*COSTS, *DEVICE_COSTS)
        },
        published=_published(card, first.published),
        deltas=empty,
        published_deltas=empty,
        cells=study.cells.get(first.row, {}),
        decode={name: value for name, value in agreed(settings).items() if value != ABSENT},
        mixed_decode=mixed,
        other_decode=(),
        before_scaling=study.before_scaling.get(first.row, ""),
        seed_values=values,
        diverged=tuple(sorted(diverged)),
        sd=empty | {name: deviation(of) for name, of in shared.items()},
        within={},
        not_compared={},
        stopped=tuple(texts),
        size=study.sizes.get(first.row, ""),
        reference_seeds=(),
        common_deltas=empty,
        note=_joined(note_on([each.text for each in unfinished], unfinished, len(seen)), more),
        brief=_joined(note_on([each.word for each in unfinished], unfinished, len(seen)), more),
        errors=seeds_of_errors(unfinished),
        sustained=tuple(
            _once(sustained(result) for result in counted.values() if result.get("sustained"))
        ),
        weights="",
        reference="",
        shares_weights=False,
        paired=False,
    )


def _compared(
    study: Study,
    row: TableRow,
    reference: RowReference,
    measured: Mapping[str, TableRow],
    settings: ScoringSettings,
    usual: Mapping[str, Any],
) -> TableRow:
    """With its differences from the reference row, if there is one: means over all seeds, less
    those of the other.

    Where rows are paired, these are means over the seeds that both have."""
    base = measured.get(reference.row)
    differing = [(name, value) for name, value in agreed(settings).items() if value != usual[name]]
    changed = {*row.cells}
    if base is not None and base.weights and reference.shares_weights:
        changed |= {
            *base.cells
        }  # of two rows that score the same weights, either may be the one that changes it
    other = {name: value for name, value in differing if name.rpartition(".")[2] not in changed}
    unlike = [metric.name for metric in study.task.tabled if metric.decided_by(other)]
    not_compared = _not_compared(study.task, row, base) if base else {}
    empty: dict[str, float | None] = dict.fromkeys(row.scores)
    scores, published = (base.scores, base.published) if base else (empty, empty)
    deltas = {name: minus(of, scores[name]) for name, of in row.scores.items()}
    common_deltas = _common_deltas(study.task, row, base) if base else empty
    if reference.paired:
        deltas = {
            name: common_deltas[name] if of is not None else None for name, of in deltas.items()
        }
    without = [*unlike, *not_compared, *(name for name, of in deltas.items() if of is None)]
    decode_note = _decode_note(study.task, settings, other, usual)
    published_deltas = {
        name: published_minus(row.published[name], published[name]) for name in row.scores
    }
    return replace(
        row,
        deltas=deltas | dict.fromkeys(without, None),
        published_deltas=published_deltas | dict.fromkeys(not_compared, None),
        not_compared=not_compared,
        reference_seeds=base.finished_seeds if base else (),
        common_deltas=common_deltas | dict.fromkeys(without, None),
        reference=reference.row,
        shares_weights=reference.shares_weights,
        paired=reference.paired,
        other_decode=tuple(other),
        note=_joined(row.note, decode_note),
        brief=_joined(row.brief, decode_note),
    )


def _common_deltas(card: Card, row: TableRow, base: TableRow) -> dict[str, float | None]:
    """Differences between means over the seeds that both have. None where they have none."""
    seeds = [seed for seed in row.finished_seeds if seed in base.finished_seeds]
    differences = dict[str, float | None]()
    for metric in card.tabled:
        row_values = row.seed_values[metric.name]
        base_values = base.seed_values[metric.name]
        row_mean = metric_mean(metric, [row_values[seed] for seed in seeds])
        base_mean = metric_mean(metric, [base_values[seed] for seed in seeds])
        differences[metric.name] = minus(row_mean, base_mean)
    return differences


def _not_compared(card: Card, row: TableRow, base: TableRow) -> dict[str, str]:
    """The metrics in which the row's scores cannot be compared with those of the reference, each
    with the reason."""
    if row.row == base.row:
        return {}
    reasons = {
        metric.name: why_not_compared(
            metric, row.within[metric.name], base.within[metric.name], base.row
        )
        for metric in card.tabled
    }
    return {name: why for name, why in reasons.items() if why}


def _counted(seen: Iterable[Standing]) -> dict[int, dict[str, Any]]:
    """The results that count, by seed."""
    return {each.trial.seed: each.counted for each in seen if each.counted is not None}


def _values(metric: Metric, results: Mapping[int, dict[str, Any]]) -> dict[int, float | None]:
    return {
        seed: results[seed]["scores"].get(metric.set, {}).get(metric.name)
        for seed in sorted(results)
    }


def _settings(card: Card, results: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings for scoring of each seed with scores: its sets are scored with the same ones."""
    scored = [
        [result["scores"][name] for name in card.scored_sets if name in result["scores"]]
        for result in results.values()
    ]
    return [sets[0].get("decode", {}) for sets in scored if sets]


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _diverged(steps: Mapping[int, int], others: int) -> str:
    """Such as "1 of 3 diverged (s2 at step 40): mean of the others"."""
    if not steps:
        return ""
    named = ", ".join(f"s{seed} at step {step}" for seed, step in sorted(steps.items()))
    note = f"{len(steps)} of {len(steps) + others} diverged ({named})"
    return f"{note}: mean of the others" if others else note


def _stops(stopped: Mapping[int, str]) -> str:
    """Such as "stopped at 100 of 500 (s1, s3)"."""
    seeds: dict[str, list[str]] = {}
    for seed, text in stopped.items():
        seeds.setdefault(text, []).append(f"s{seed}")
    return "; ".join(f"{text} ({', '.join(of)})" for text, of in seeds.items())


def metric_mean(metric: Metric, values: Sequence[float | None]) -> float | None:
    """The arithmetic mean; of a metric that is e^ of another one, e^ of the mean of that one."""
    if (
        metric.exp_of is None
        or len(values) < 2
        or any(value is None or value <= 0 for value in values)
    ):
        return mean(values)
    logs = mean([math.log(value) for value in values if value is not None])
    return None if logs is None else math.exp(logs)


def mean(values: Sequence[float | None]) -> float | None:
    """None without values, or if one was not finite: leaving out a diverged seed would flatter the
    row."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def deviation(values: Sequence[float | None]) -> float | None:
    """The sample standard deviation; None under two values, or if one was not finite."""
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if len(known) > 1 and len(known) == len(values) else None


def minus(value: float | None, base: float | None) -> float | None:
    """Unrounded; 0 where only rounding errors of the two, which may be means, set them apart."""
    if value is None or base is None:
        return None
    difference = value - base
    return 0.0 if abs(difference) <= ROUNDING * max(abs(value), abs(base)) else difference


def _published(card: Card, values: Mapping[str, float | None]) -> dict[str, float | None]:
    """A row's published values: of each metric of the table, and its parameters in millions."""
    of_metrics = {metric.name: values.get(metric.published_name) for metric in card.tabled}
    return of_metrics | {"params_m": values.get("params_m")}


def published_minus(value: float | None, base: float | None) -> float | None:
    """As on paper: 5.29 − 4.92 is 0.37, where binary fractions give 0.3700000000000001."""
    if value is None or base is None:
        return None
    return float(Decimal(str(value)) - Decimal(str(base)))
