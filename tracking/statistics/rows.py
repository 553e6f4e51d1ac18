"""The rows of the study's table: means over seeds that did not diverge, differences from base, published values.

Scores omit a setting for scoring, such as `decode.beam`, while it has its neutral value. So an absent setting is a
value, and takes part in comparisons.
"""

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracking.card import COSTS, DEVICE_COSTS, Card, Metric
from tracking.study import Standing, Study
from tracking.trial import TrialFolder, TrialState
from tracking.words import stopped_at, sustained

BASE = "base"
ABSENT = "default"
"""The value of an omitted setting. Only `transformer` defines the neutral value itself."""
ScoringSettings = dict[str, list[Any]]
"""For scoring, of one row: each setting with every value once. One value, unless the row's seeds differ; none without
scores."""


def over_seeds(decodes: Sequence[Mapping[str, Any]], names: Iterable[str] | None = None) -> ScoringSettings:
    """From the settings of each seed; of these ``names``, or of all that any seed has."""
    own = (name for decode in decodes for name in decode)
    return {name: _once(each.get(name, ABSENT) for each in decodes) for name in dict.fromkeys(names or own)}


def agreed(settings: ScoringSettings) -> dict[str, Any]:
    """The settings that all seeds have with one value."""
    return {name: values[0] for name, values in settings.items() if len(values) == 1}


def _over_rows(card: Card, rows: Mapping[str, Sequence[Standing]], reference: str) -> dict[str, ScoringSettings]:
    """The settings of every row, the reference first."""
    ordered = sorted(rows, key=lambda row: row != reference)
    decodes = {row: _settings(card, _counted(rows[row])) for row in ordered}
    names = [name for of in decodes.values() for each in of for name in each]
    return {row: over_seeds(of, names) for row, of in decodes.items()}


def _decode_note(card: Card, settings: ScoringSettings, other: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """Such as "decode.alpha 1.0, not 0.6; seeds mix decode.beam 4, 8"."""
    differs = [f"{card.setting(name)} {value}, not {usual[name]}" for name, value in other.items()]
    mixed = [(card.setting(name), ", ".join(map(str, of))) for name, of in settings.items() if len(of) > 1]
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

    Scores and differences are by the name of each metric in the table. A finished row's cost of None is unknown.
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
    device_flops: float | None  # as the paper counts them
    mfu: float | None  # from 0 to 1
    published: dict[str, float | None]  # of the metrics, and params_m (millions)
    deltas: dict[str, float | None]  # from the mean over all seeds of our own reference row
    published_deltas: dict[str, float | None]  # the published row from the published reference row
    cells: dict[str, object]
    decode: dict[str, Any]  # the settings for scoring on which all seeds agree
    mixed_decode: tuple[str, ...]  # the other settings: a score that they change has no mean
    other_decode: tuple[str, ...]  # unlike the reference, not by the row's own change: no difference
    before_scaling: str  # the change before scaling, if scaling touches it
    seed_values: dict[str, dict[int, float | None]]  # of each metric and seed behind the mean; None: not finite
    diverged: tuple[int, ...]  # finished seeds that diverged
    sd: dict[str, float | None]  # of the values of the seeds; None under two seeds
    stopped: tuple[int, ...]  # finished seeds whose training ended before its steps
    size: str  # in words, where the model is of another size than base's although the row changes no size; or ""
    note: str  # missing | FAILED: why | damaged: file | running | interrupted | "2 of 3 seeds; …" | diverged seeds | ""
    sustained: tuple[str, ...] = ()  # in words, how it is known what the devices sustain

    @property
    def status(self) -> str:
        """The text in place of a number: FAILED, damaged, missing, running, interrupted or "not finite"."""
        return "not finite" if self.seeds else re.split("[:;]", self.note)[0].partition(" (")[0]


def table(study: Study, reference: str = BASE) -> list[TableRow]:
    """Every row of the study in its order, from `study.json` and the trials' files alone.

    Differences are from the row called ``reference``."""
    rows: dict[str, list[Standing]] = {}
    for each in study.standings():
        rows.setdefault(each.trial.row, []).append(each)
    settings = _over_rows(study.task, rows, reference)
    usual: dict[str, Any] = {}  # each setting's value in the first row whose seeds agree on it
    for of_row in settings.values():
        usual = agreed(of_row) | usual
    measured = {row: _measured(study, seen, settings[row]) for row, seen in rows.items()}
    base = measured.get(reference)
    return [_compared(study, row, base, settings[name], usual) for name, row in measured.items()]


def decode_of(rows: Iterable[TableRow]) -> dict[str, Any]:
    """The settings for scoring with which rows are compared: those of base, or of the first row that matches all."""
    return next((row.decode for row in rows if row.decode and not row.mixed_decode and not row.other_decode), {})


def _measured(study: Study, seen: Sequence[Standing], settings: ScoringSettings) -> TableRow:
    """A row by itself, without its differences from another one. A metric that any seed lacks has no mean."""
    first, card, counted = seen[0].trial, study.task, _counted(seen)
    names = [metric.name for metric in card.tabled]
    diverged = {each.trial.seed: each.diverged for each in seen if each.diverged is not None}
    values = {each.name: _values(each, counted) for each in card.tabled}
    mixed = tuple(name for name, of in settings.items() if len(of) > 1)
    shared = {each.name: [*values[each.name].values()] for each in card.tabled if not each.decided_by(mixed)}
    empty: dict[str, float | None] = dict.fromkeys(names)
    texts = {seed: text for seed, result in sorted(counted.items()) if (text := stopped_at(result))}
    return TableRow(
        row=first.row,
        group=first.group,
        change=first.change,
        seeds=len(counted),
        asked=len(seen),
        steps=mean([result["step"] for result in counted.values()]),
        scores=empty | {each.name: metric_mean(each, shared[each.name]) for each in card.tabled if each.name in shared},
        **{name: mean([result.get(name) for result in counted.values()]) for name in (*COSTS, *DEVICE_COSTS)},
        published={name: first.published.get(name) for name in (*names, "params_m")},
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
        stopped=tuple(texts),
        size=study.sizes.get(first.row, ""),
        note=_joined(_note(study, seen), _diverged(diverged, len(counted)), _stops(texts)),
        sustained=tuple(_once(sustained(result) for result in counted.values() if "sustained" in result)),
    )


def _compared(
    study: Study, row: TableRow, base: TableRow | None, settings: ScoringSettings, usual: Mapping[str, Any]
) -> TableRow:
    """With its differences from the reference row, if there is one: means over all seeds, less those of the other."""
    differing = [(name, value) for name, value in agreed(settings).items() if value != usual[name]]
    other = {name: value for name, value in differing if name.rpartition(".")[2] not in row.cells}  # not its own change
    unlike = [metric.name for metric in study.task.tabled if metric.decided_by(other)]
    empty: dict[str, float | None] = dict.fromkeys(row.scores)
    scores, published = (base.scores, base.published) if base else (empty, empty)
    return replace(
        row,
        deltas={name: minus(of, scores[name]) for name, of in row.scores.items()} | dict.fromkeys(unlike, None),
        published_deltas={name: minus(row.published[name], published[name]) for name in row.scores},
        other_decode=tuple(other),
        note=_joined(row.note, _decode_note(study.task, settings, other, usual)),
    )


def _counted(seen: Iterable[Standing]) -> dict[int, dict[str, Any]]:
    """The results that count, by seed."""
    return {each.trial.seed: each.counted for each in seen if each.counted is not None}


def _values(metric: Metric, results: Mapping[int, dict[str, Any]]) -> dict[int, float | None]:
    return {seed: results[seed]["scores"].get(metric.set, {}).get(metric.name) for seed in sorted(results)}


def _settings(card: Card, results: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings for scoring of each seed with scores: its sets are scored with the same ones."""
    scored = [[of["scores"][name] for name in card.scored_sets if name in of["scores"]] for of in results.values()]
    return [sets[0].get("decode", {}) for sets in scored if sets]


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _diverged(steps: Mapping[int, int], others: int) -> str:
    """Such as "1 of 3 diverged (s2 at step 40): mean of the others"."""
    if not steps:
        return ""
    named = ", ".join(f"s{seed} at step {step}" for seed, step in sorted(steps.items()))
    return f"{len(steps)} of {len(steps) + others} diverged ({named})" + ": mean of the others" * bool(others)


def _stops(stopped: Mapping[int, str]) -> str:
    """Such as "stopped at 100 of 500 (s1, s3)"."""
    seeds: dict[str, list[str]] = {}
    for seed, text in stopped.items():
        seeds.setdefault(text, []).append(f"s{seed}")
    return "; ".join(f"{text} ({', '.join(of)})" for text, of in seeds.items())


def _note(study: Study, seen: Sequence[Standing]) -> str:
    unfinished = [each for each in seen if each.result is None]
    notes = [_why_unfinished(study.trial_folder(each.trial), each.state) for each in unfinished]
    if len(unfinished) == len(seen):  # the most serious first: a failure needs a person
        return "; ".join(dict.fromkeys(sorted(notes, key=_gravity)))
    rest = [f"s{each.trial.seed} {note}" for each, note in zip(unfinished, notes, strict=True)]
    return "; ".join([f"{len(seen) - len(rest)} of {len(seen)} seeds", *rest]) if rest else ""


def _why_unfinished(folder: TrialFolder, state: TrialState) -> str:
    """The state with its cause; the state alone if a retry or a repair has just removed the cause."""
    if state == "failed":
        return ": ".join(filter(None, ["FAILED", folder.cause()]))
    if state == "damaged":
        return ": ".join(filter(None, ["damaged", ", ".join(error.note for error in folder.damage())]))
    return state


def _gravity(note: str) -> int:
    order = ("FAILED", "damaged", "running", "interrupted", "missing")
    return order.index(note.partition(":")[0])


def metric_mean(metric: Metric, values: Sequence[float | None]) -> float | None:
    """The arithmetic mean; of a metric that is e^ of another one, e^ of the mean of that one."""
    if metric.exp_of is None or len(values) < 2 or any(value is None or value <= 0 for value in values):
        return mean(values)
    logs = mean([math.log(value) for value in values if value is not None])
    return None if logs is None else math.exp(logs)


def mean(values: Sequence[float | None]) -> float | None:
    """None without values, or if one was not finite: leaving out a diverged seed would flatter the row."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def deviation(values: Sequence[float | None]) -> float | None:
    """The sample standard deviation; None under two values, or if one was not finite."""
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if len(known) > 1 and len(known) == len(values) else None


def minus(value: float | None, base: float | None) -> float | None:
    if value is None or base is None:
        return None
    return round(value - base, 9)  # 5.29 − 4.92 is 0.37, not 0.3700000000000001
