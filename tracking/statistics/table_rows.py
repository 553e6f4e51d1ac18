"""The rows of the study's table: means over seeds that did not diverge, differences from base,
published values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracking.activity.unfinished_trials import (
    brief_note,
    full_note,
    seeds_of_errors,
    unfinished_trials,
)
from tracking.card import COSTS, DEVICE_COSTS, Card, Metric
from tracking.statistics.means import deviation, mean, metric_mean
from tracking.statistics.references import comparable_within, hosts_of, reference_of
from tracking.statistics.row_comparison import ComparedRow
from tracking.statistics.scoring_settings import (
    ABSENT,
    ScoringSettings,
    agreed,
    mixed,
    over_rows,
)
from tracking.statistics.table_row import BASE, RowCosts, RowNotes, TableRow, joined
from tracking.study import Standing, Study
from tracking.words import grouped, known_step, stopped_at, sustained

Results = Mapping[int, Mapping[str, Any]]
"""The results that count, by seed."""


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
        within = _row_within(study.task, standings, texts_within)
        host = hosts.get(name, "")
        measured[name] = _measured(study, standings, settings[name], within, host)
    expected = _first_agreed(settings.values())
    rows = list[TableRow]()
    for name, row in measured.items():
        own_reference = study.references.get(name, reference)
        row_reference = reference_of(name, own_reference, hosts, study.paired)
        expected_of_row = expected | agreed(settings.get(row_reference.row, {}))
        base = measured.get(row_reference.row)
        compared = ComparedRow(
            study.task, row, row_reference, base, settings[name], expected_of_row
        )
        rows.append(compared.with_comparison())
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
        if row.decode and not row.mixed_decode and not row.comparison.other_decode:
            return row.decode
    return {}


def _measured(
    study: Study,
    standings: Sequence[Standing],
    settings: ScoringSettings,
    within: dict[str, tuple[str, ...]],
    host: str,
) -> TableRow:
    """A row by itself, not compared with its reference. A metric that any seed lacks has no
    mean."""
    trial = standings[0].trial
    card = study.task
    results = _results(standings)
    mixed_decode = mixed(settings)
    seed_values = {metric.name: _values(metric, results) for metric in card.tabled}
    scores = dict[str, float | None]()
    sd = dict[str, float | None]()
    for metric in card.tabled:
        is_mixed = metric.decided_by(mixed_decode)
        values = [*seed_values[metric.name].values()]
        scores[metric.name] = None if is_mixed else metric_mean(metric, values)
        sd[metric.name] = None if is_mixed else deviation(values)
    stops = _stops(results)
    diverged_at = _diverged_at(standings)
    return TableRow(
        row=trial.row,
        group=trial.group,
        change=trial.change,
        before_scaling=study.before_scaling.get(trial.row, ""),
        cells=study.cells.get(trial.row, {}),
        size=study.sizes.get(trial.row, ""),
        weights=host,
        published=_published(card, trial.published),
        asked=len(standings),
        seeds=len(results),
        diverged=tuple(sorted(diverged_at)),
        stopped=tuple(stops),
        notes=_notes(study, standings, _divergence_note(diverged_at, len(results)), stops),
        scores=scores,
        sd=sd,
        seed_values=seed_values,
        decode={name: value for name, value in agreed(settings).items() if value != ABSENT},
        mixed_decode=mixed_decode,
        within=within,
        steps=mean([known_step(result) for result in results.values()]),
        costs=_mean_costs(results),
        sustained=_sustained_words(results),
    )


def _results(standings: Iterable[Standing]) -> dict[int, dict[str, Any]]:
    """The results that count, by seed."""
    return {
        standing.trial.seed: standing.counted
        for standing in standings
        if standing.counted is not None
    }


def _values(metric: Metric, results: Results) -> dict[int, float | None]:
    values = dict[int, float | None]()
    for seed in sorted(results):
        set_scores = results[seed]["scores"].get(metric.set, {})
        values[seed] = set_scores.get(metric.name)
    return values


def _stops(results: Results) -> dict[int, str]:
    """By seed, where training ended before its steps, in words."""
    stops = dict[int, str]()
    for seed in sorted(results):
        text = stopped_at(results[seed])
        if text:
            stops[seed] = text
    return stops


def _diverged_at(standings: Iterable[Standing]) -> dict[int, int]:
    """The step by seed."""
    return {
        standing.trial.seed: standing.diverged
        for standing in standings
        if standing.diverged is not None
    }


def _notes(
    study: Study, standings: Sequence[Standing], divergence_note: str, stops: Mapping[int, str]
) -> RowNotes:
    """What is unfinished, then what is to know about the finished trials."""
    unfinished = unfinished_trials(study, standings)
    finished_note = joined(divergence_note, _stops_note(stops))
    return RowNotes(
        full=joined(full_note(unfinished, len(standings)), finished_note),
        brief=joined(brief_note(unfinished, len(standings)), finished_note),
        errors=seeds_of_errors(unfinished),
    )


def _mean_costs(results: Results) -> RowCosts:
    costs = dict[str, float | None]()
    for name in (*COSTS, *DEVICE_COSTS):
        costs[name] = mean([result.get(name) for result in results.values()])
    return RowCosts(**costs)


def _sustained_words(results: Results) -> tuple[str, ...]:
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
