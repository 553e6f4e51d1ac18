"""The rows of the study's table: means over seeds that did not diverge, differences from base,
published values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracking.activity.unfinished_trials import (
    brief_note,
    full_note,
    seeds_of_errors,
    unfinished_trials,
)
from tracking.card import COSTS, DEVICE_COSTS, Card, Metric
from tracking.statistics.means import deviation, mean, metric_mean, minus, published_minus
from tracking.statistics.references import (
    RowReference,
    comparable_within,
    hosts_of,
    reference_of,
    why_not_compared,
)
from tracking.statistics.scoring_settings import (
    ABSENT,
    ScoringSettings,
    agreed,
    decode_note,
    mixed,
    over_rows,
)
from tracking.study import Standing, Study
from tracking.words import grouped, known_step, stopped_at, sustained

BASE = "base"


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One row: the mean over its finished seeds, without those that diverged.

    None means no number; `note` explains our own missing numbers. Scores and differences are by
    metric, for each metric of the table. A finished row's cost of None is unknown.
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
    deltas: dict[str, float | None] = field(default_factory=dict)  # from our reference row
    published_deltas: dict[str, float | None] = field(default_factory=dict)  # between published
    cells: dict[str, object]
    decode: dict[str, Any]  # the settings for scoring that are the same for all seeds
    mixed_decode: tuple[str, ...]  # the other settings: a score that they change has no mean
    other_decode: tuple[str, ...] = ()  # unlike the reference, though not changed by the row: no Δ
    before_scaling: str  # the change before scaling, if scaling touches it
    seed_values: dict[str, dict[int, float | None]]  # by metric and seed; None: not finite
    diverged: tuple[int, ...]  # finished seeds that diverged
    sd: dict[str, float | None]  # over seeds; None for fewer than two
    within: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of ``comparable_within``
    not_compared: dict[str, str] = field(default_factory=dict)  # by metric, why there is no Δ
    stopped: tuple[int, ...]  # finished seeds whose training ended before its steps
    size: str  # how the model's size differs from base's though the row changes no size; or ""
    reference_seeds: tuple[int, ...] = ()  # its finished seeds that did not diverge
    common_deltas: dict[str, float | None] = field(default_factory=dict)  # at common seeds
    note: str  # "missing", "FAILED: why", "2 of 3 seeds; …", diverged seeds, or ""
    brief: str  # the note without causes of errors and without missing seeds
    errors: dict[str, tuple[int, ...]]  # seeds by error, such as "FAILED: ValueError: no"
    sustained: tuple[str, ...]  # in words, how it is known what the devices sustain
    weights: str = ""  # the row whose weights it scores; "": its own
    reference: str = ""  # the row from which it differs: its host's, if it only scores
    shares_weights: bool = False  # with that row
    paired: bool = False  # whether differences are taken seed by seed, at the seeds that both have

    @property
    def status(self) -> str:
        """The text in place of a number: FAILED, damaged, missing, running, interrupted or "not
        finite"."""
        if self.seeds:
            return "not finite"
        return re.split(r"[:;]| \(", self.note)[0]

    @property
    def finished_seeds(self) -> tuple[int, ...]:
        """Those behind its means."""
        return next((tuple(seed_value) for seed_value in self.seed_values.values()), ())

    def is_compared(self, metric: Metric) -> bool:
        """Whether its score was measured like that of the reference."""
        return metric.name not in self.not_compared and not metric.decided_by(self.other_decode)

    def mean_at(self, metric: Metric, seeds: Iterable[int]) -> float | None:
        """Over these finished seeds; None if there are none, or if all diverged."""
        values = self.seed_values[metric.name]
        return metric_mean(metric, [values[seed] for seed in seeds])

    @property
    def common_seeds(self) -> tuple[int, ...]:
        """The seeds that the reference has, too."""
        return tuple(seed for seed in self.finished_seeds if seed in self.reference_seeds)


def table(study: Study, reference: str = BASE) -> list[TableRow]:
    """Every row of the study in its order, only from `study.json` and the trials' files.

    Differences are from the row called ``reference``, or from a row's own reference."""
    standings = study.standings()
    standings_of_row = grouped((standing.trial.row, standing) for standing in standings)
    results = {row: _results(standings) for row, standings in standings_of_row.items()}
    settings = over_rows(study.task, results, reference)
    hosts = hosts_of(study)
    texts_within = _texts_within(study, standings_of_row)
    measured = dict[str, TableRow]()
    for name, standings in standings_of_row.items():
        measured[name] = replace(
            _measured(study, standings, settings[name]),
            weights=hosts.get(name, ""),
            within=_row_within(study.task, standings, texts_within),
        )
    expected = _first_agreed(settings.values())
    rows = list[TableRow]()
    for name, row in measured.items():
        own_reference = study.references.get(name, reference)
        row_reference = reference_of(name, own_reference, hosts, study.paired)
        expected_of_row = expected | agreed(settings.get(row_reference.row, {}))
        base = measured.get(row_reference.row)
        differences = _Differences(
            study.task, row, row_reference, base, settings[name], expected_of_row
        )
        rows.append(differences.applied())
    return rows


def _first_agreed(settings_of_rows: Iterable[ScoringSettings]) -> dict[str, Any]:
    """Each setting's value in the first row whose seeds agree on it."""
    first_values = dict[str, Any]()
    for settings in settings_of_rows:
        first_values = agreed(settings) | first_values
    return first_values


def _texts_within(
    study: Study, standings_of_row: Mapping[str, Sequence[Standing]]
) -> dict[str, dict[str, str]]:
    """By metric and trial, the texts of ``comparable_within``."""
    trials = {}
    for standings in standings_of_row.values():
        for standing in standings:
            if standing.counted is not None:
                folder = study.trial_folder(standing.trial)
                trials[standing.trial.name] = (folder, standing.counted)
    return {metric.name: comparable_within(metric, trials) for metric in study.task.tabled}


def _row_within(
    card: Card, standings: Sequence[Standing], texts_within: Mapping[str, Mapping[str, str]]
) -> dict[str, tuple[str, ...]]:
    """By metric, the texts of the row's trials, without repeats."""
    names = [standing.trial.name for standing in standings]
    row_within = {}
    for metric in card.tabled:
        text_of_trial = texts_within[metric.name]
        texts = [text_of_trial[name] for name in names if name in text_of_trial]
        row_within[metric.name] = tuple(dict.fromkeys(texts))
    return row_within


def decode_of(rows: Iterable[TableRow]) -> dict[str, Any]:
    """The settings for scoring with which rows are compared: those of base, or of the first row
    that matches all."""
    for row in rows:
        if row.decode and not row.mixed_decode and not row.other_decode:
            return row.decode
    return {}


def _measured(study: Study, standings: Sequence[Standing], settings: ScoringSettings) -> TableRow:
    """A row by itself, without its differences from its reference. A metric that any seed lacks has
    no mean."""
    trial = standings[0].trial
    card = study.task
    results = _results(standings)
    mixed_decode = mixed(settings)
    scores = dict[str, float | None]()
    sd = dict[str, float | None]()
    seed_values = {metric.name: _values(metric, results) for metric in card.tabled}
    for metric in card.tabled:
        is_mixed = metric.decided_by(mixed_decode)
        values = [*seed_values[metric.name].values()]
        scores[metric.name] = None if is_mixed else metric_mean(metric, values)
        sd[metric.name] = None if is_mixed else deviation(values)
    stops = {seed: text for seed in sorted(results) if (text := stopped_at(results[seed]))}
    unfinished = unfinished_trials(study, standings)
    diverged_at = {
        standing.trial.seed: standing.diverged
        for standing in standings
        if standing.diverged is not None
    }
    finished_note = _joined(_divergence_note(diverged_at, len(results)), _stops_note(stops))
    return TableRow(
        row=trial.row,
        group=trial.group,
        change=trial.change,
        seeds=len(results),
        asked=len(standings),
        steps=mean([known_step(result) for result in results.values()]),
        scores=scores,
        **_mean_costs(results),
        published=_published(card, trial.published),
        cells=study.cells.get(trial.row, {}),
        decode={name: value for name, value in agreed(settings).items() if value != ABSENT},
        mixed_decode=mixed_decode,
        before_scaling=study.before_scaling.get(trial.row, ""),
        seed_values=seed_values,
        diverged=tuple(sorted(diverged_at)),
        sd=sd,
        stopped=tuple(stops),
        size=study.sizes.get(trial.row, ""),
        note=_joined(full_note(unfinished, len(standings)), finished_note),
        brief=_joined(brief_note(unfinished, len(standings)), finished_note),
        errors=seeds_of_errors(unfinished),
        sustained=_sustained_words(results),
    )


def _results(standings: Iterable[Standing]) -> dict[int, dict[str, Any]]:
    """The results that count, by seed."""
    return {
        standing.trial.seed: standing.counted
        for standing in standings
        if standing.counted is not None
    }


def _values(metric: Metric, results: Mapping[int, dict[str, Any]]) -> dict[int, float | None]:
    values = dict[int, float | None]()
    for seed in sorted(results):
        set_scores = results[seed]["scores"].get(metric.set, {})
        values[seed] = set_scores.get(metric.name)
    return values


def _mean_costs(results: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """By the names of the row's fields."""
    costs = dict[str, Any]()
    for name in (*COSTS, *DEVICE_COSTS):
        costs[name] = mean([result.get(name) for result in results.values()])
    return costs


def _sustained_words(results: Mapping[int, Mapping[str, Any]]) -> tuple[str, ...]:
    words = [sustained(result) for result in results.values() if result.get("sustained")]
    return tuple(dict.fromkeys(words))


def _published(card: Card, values: Mapping[str, float | None]) -> dict[str, float | None]:
    """A row's published values: of each metric of the table, and its parameters in millions."""
    published = {metric.name: values.get(metric.published_name) for metric in card.tabled}
    return published | {"params_m": values.get("params_m")}


def _divergence_note(step_of_seed: Mapping[int, int], finite_seeds: int) -> str:
    """Such as "1 of 3 diverged (s2 at step 40): mean of the others"."""
    if not step_of_seed:
        return ""
    parts = []
    for seed, step in sorted(step_of_seed.items()):
        parts.append(f"s{seed} at step {step}" if step else f"s{seed}")  # 0: no step is known
    steps = ", ".join(parts)
    finished = len(step_of_seed) + finite_seeds
    note = f"{len(step_of_seed)} of {finished} diverged ({steps})"
    return f"{note}: mean of the others" if finite_seeds else note


def _stops_note(text_of_seed: Mapping[int, str]) -> str:
    """Such as "stopped at 100 of 500 (s1, s3)"."""
    seeds_of_text = grouped((text, f"s{seed}") for seed, text in text_of_seed.items())
    return "; ".join(f"{text} ({', '.join(seeds)})" for text, seeds in seeds_of_text.items())


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


@dataclass(frozen=True)
class _Differences:
    """How a row differs from its reference; ``base`` is that row, or None if the study lacks it.

    ``expected`` are the settings for scoring that the row should have to be compared.
    """

    card: Card
    row: TableRow
    reference: RowReference
    base: TableRow | None
    settings: ScoringSettings
    expected: Mapping[str, Any]

    def applied(self) -> TableRow:
        """The row with its differences: means over all seeds, less those of the reference.

        Where rows are paired, these are means over the seeds that both have."""
        other_decode = self._other_decode()
        not_compared = self._not_compared()
        common_deltas = deltas_at_common_seeds(self.card.tabled, self.row, self.base)
        deltas = dict[str, float | None]()
        for metric in self.card.tabled:
            name = metric.name
            if metric.decided_by(other_decode) or name in not_compared:
                deltas[name] = None
            else:
                deltas[name] = self._delta(name, common_deltas[name])
            if deltas[name] is None:
                common_deltas[name] = None
        note = decode_note(self.card, self.settings, other_decode, self.expected)
        return replace(
            self.row,
            deltas=deltas,
            published_deltas=self._published_deltas(not_compared),
            not_compared=not_compared,
            reference_seeds=self.base.finished_seeds if self.base else (),
            common_deltas=common_deltas,
            reference=self.reference.row,
            shares_weights=self.reference.shares_weights,
            paired=self.reference.paired,
            other_decode=tuple(other_decode),
            note=_joined(self.row.note, note),
            brief=_joined(self.row.brief, note),
        )

    def _other_decode(self) -> dict[str, Any]:
        """The settings for scoring unlike the expected ones that the row does not change itself."""
        changed = set(self.row.cells)
        if self.base is not None and self.base.weights and self.reference.shares_weights:
            # Two rows score the same weights: either may be the one that changes the setting.
            changed |= set(self.base.cells)
        other_decode = {}
        for name, value in agreed(self.settings).items():
            if value != self.expected[name] and name.rpartition(".")[2] not in changed:
                other_decode[name] = value
        return other_decode

    def _not_compared(self) -> dict[str, str]:
        """By metric, why the row's scores cannot be compared with those of the reference."""
        base = self.base
        if base is None or base.row == self.row.row:
            return {}
        reasons = dict[str, str]()
        for metric in self.card.tabled:
            row_texts = self.row.within[metric.name]
            reason = why_not_compared(metric, row_texts, base.within[metric.name], base.row)
            if reason:
                reasons[metric.name] = reason
        return reasons

    def _delta(self, name: str, common_delta: float | None) -> float | None:
        """Where rows are paired, the one at the seeds that both have."""
        base_score = self.base.scores[name] if self.base else None
        delta = minus(self.row.scores[name], base_score)
        return common_delta if delta is not None and self.reference.paired else delta

    def _published_deltas(self, not_compared: Mapping[str, str]) -> dict[str, float | None]:
        deltas = dict[str, float | None]()
        for name in self.row.scores:
            base_published = self.base.published[name] if self.base else None
            delta = published_minus(self.row.published[name], base_published)
            deltas[name] = None if name in not_compared else delta
        return deltas


def deltas_at_common_seeds(
    metrics: Iterable[Metric], row: TableRow, base: TableRow | None
) -> dict[str, float | None]:
    """Between means over the seeds that both rows have; None where they have none."""
    base_seeds = base.finished_seeds if base else ()
    seeds = [seed for seed in row.finished_seeds if seed in base_seeds]
    deltas = dict[str, float | None]()
    for metric in metrics:
        row_mean = row.mean_at(metric, seeds)
        base_mean = base.mean_at(metric, seeds) if base else None
        deltas[metric.name] = minus(row_mean, base_mean)
    return deltas
