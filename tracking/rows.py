"""The rows of the study's table: our measurements and the published values."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.card import COSTS, Card
from tracking.decode_settings import DecodeSettings, decode_note, reference_of
from tracking.study import Study, Trial
from tracking.trial_folder import TrialFolder, TrialState

BASE = "base"
NO_SEED_IN_COMMON = "no seed in common with base"


@dataclass(frozen=True)
class TableRow:
    """One row: the mean over its finished seeds. None means no number; `note` explains our own missing numbers.

    Scores and differences are by the name of each metric in the table. A finished row's cost of None is unknown.
    """

    row: str
    group: str
    change: str
    seeds: int  # finished ones
    asked: int  # all seeds of the row in the study
    steps: float | None
    scores: dict[str, float | None]
    params: float | None
    flops: float | None  # of the whole training run
    seconds: float | None
    published: dict[str, float | None]  # of the metrics, and params_m (millions)
    deltas: dict[str, float | None]  # from our own base, over the finished seeds that both have
    delta_seeds: tuple[int, ...]  # those seeds; empty without a difference
    published_deltas: dict[str, float | None]  # the published row from the published base
    cells: dict[str, object]
    decode: dict[str, Any]  # the settings for scoring on which all seeds agree
    mixed_decode: tuple[str, ...]  # the other settings: a score that they change has no mean
    other_decode: tuple[str, ...]  # unlike base, and not by the row's own change: no difference
    before_scaling: str  # the change before scaling, if scaling touches it
    note: str  # missing | FAILED: why | damaged: file | running | interrupted | "2 of 3 seeds; …" | "" if complete

    @property
    def status(self) -> str:
        """The text in place of a number: FAILED, damaged, missing, running, interrupted or "not finite"."""
        return "not finite" if self.seeds else self.note.partition(":")[0]


@dataclass(frozen=True)
class _Seen:
    """A snapshot of a trial: its result if it is finished, otherwise the reason why not."""

    seed: int
    result: dict[str, Any] | None
    note: str


@dataclass(frozen=True)
class _Means:
    seeds: int
    steps: float | None
    scores: dict[str, float | None]  # those of the table, by name
    params: float | None
    flops: float | None
    seconds: float | None
    decode: DecodeSettings


@dataclass(frozen=True)
class _Delta:
    """Differences from base over the finished seeds that both have; ``note`` explains them if the seeds differ."""

    scores: dict[str, float | None]
    seeds: tuple[int, ...]
    note: str

    def without(self, metrics: Collection[str]) -> "_Delta":
        """Without the differences in these metrics; if none is left, without seeds and note, too."""
        scores = {name: None if name in metrics else value for name, value in self.scores.items()}
        return _Delta(scores, self.seeds, self.note) if _any(scores) or not self.seeds else _Delta(scores, (), "")


def table(study: Study) -> list[TableRow]:
    """Every row of the study in its order, from `study.json` and the trials' files alone."""
    rows: dict[str, list[Trial]] = {}
    for trial in study.trials:
        rows.setdefault(trial.row, []).append(trial)
    card = study.task
    seen = {row: [_look(study, trial) for trial in trials] for row, trials in rows.items()}
    found = {row: _finished(looks) for row, looks in seen.items()}
    means = {row: _means(card, list(results.values())) for row, results in found.items()}
    base = means.get(BASE, _means(card, []))
    decode = reference_of(each.decode for each in (base, *means.values()))
    paper = rows[BASE][0].published if BASE in rows else {}
    deltas = {row: _delta(card, results, found.get(BASE, {}), means[row], base) for row, results in found.items()}
    notes = {row: _note(looks) for row, looks in seen.items()}
    return [_row(study, trials, means[row], deltas[row], notes[row], decode, paper) for row, trials in rows.items()]


def decode_of(rows: Iterable[TableRow]) -> dict[str, Any]:
    """The settings for scoring with which rows are compared: those of base, or of the first row that matches all."""
    return next((row.decode for row in rows if row.decode and not row.mixed_decode and not row.other_decode), {})


def _row(
    study: Study,
    trials: Sequence[Trial],
    means: _Means,
    delta: _Delta,
    state: str,
    decode: dict[str, Any],
    paper_base: dict[str, float | None],
) -> TableRow:
    first, card = trials[0], study.task
    paper, names = first.published, [metric.name for metric in card.tabled]
    changed = study.cells.get(first.row, {})  # a row's own change is compared with base
    differing = means.decode.other_than(decode).items()
    other = {name: value for name, value in differing if name.rpartition(".")[2] not in changed}
    delta = delta.without([metric.name for metric in card.tabled if metric.decided_by(other)])
    seeds = f"{means.seeds} seed{'s' * (means.seeds > 1)}" if delta.note and not state else state
    notes = (seeds, delta.note, decode_note(card, means.decode.mixed(), other, decode))
    return TableRow(
        row=first.row,
        group=first.group,
        change=first.change,
        seeds=means.seeds,
        asked=len(trials),
        steps=means.steps,
        scores=means.scores,
        params=means.params,
        flops=means.flops,
        seconds=means.seconds,
        published={name: paper.get(name) for name in (*names, "params_m")},
        deltas=delta.scores,
        delta_seeds=delta.seeds,
        published_deltas={name: _minus(paper.get(name), paper_base.get(name)) for name in names},
        cells=changed,
        decode=means.decode.agreed(),
        mixed_decode=tuple(means.decode.mixed()),
        other_decode=tuple(other),
        before_scaling=study.before_scaling.get(first.row, ""),
        note="; ".join(filter(None, notes)),
    )


def _look(study: Study, trial: Trial) -> _Seen:
    """Reads the trial once, since it may finish at any moment. A result of another configuration does not count."""
    folder = study.trial_folder(trial)
    state, result = folder.standing(trial.key)
    return _Seen(trial.seed, result, "" if result is not None else _why_unfinished(folder, state))


def _finished(looks: Iterable[_Seen]) -> dict[int, dict[str, Any]]:
    """The results by seed."""
    return {look.seed: look.result for look in looks if look.result is not None}


def _delta(
    card: Card, row: dict[int, dict[str, Any]], base: dict[int, dict[str, Any]], means: _Means, base_means: _Means
) -> _Delta:
    """Paired by seed. A score without a mean on either side has no difference."""
    seeds = tuple(seed for seed in sorted(row) if seed in base)
    ours, theirs = (_means(card, [results[seed] for seed in seeds]).scores for results in (row, base))
    known = [name for name in ours if None not in (means.scores[name], base_means.scores[name])]
    scores = {name: _minus(ours[name], theirs[name]) if name in known else None for name in ours}
    if not row or not base or set(row) == set(base):
        return _Delta(scores, seeds if _any(scores) else (), "")
    if not seeds:
        return _Delta(scores, (), f"{NO_SEED_IN_COMMON} ({', '.join(map(str, sorted(base)))})")
    note = f"Δ over seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    return _Delta(scores, seeds, note) if _any(scores) else _Delta(scores, (), "")


def _any(scores: Mapping[str, float | None]) -> bool:
    return any(value is not None for value in scores.values())


def _means(card: Card, results: Sequence[dict[str, Any]]) -> _Means:
    """A metric that any seed lacks has no mean."""
    decode = DecodeSettings.of(_settings(card, results))
    sets = [result["scores"] for result in results]
    means = {each.name: _mean([of.get(each.set, {}).get(each.name) for of in sets]) for each in card.tabled}
    costs = {name: _mean([result.get(name) for result in results]) for name in COSTS}
    return _Means(
        seeds=len(results),
        steps=_mean([result["step"] for result in results]),
        scores={each.name: None if each.decided_by(decode.mixed()) else means[each.name] for each in card.tabled},
        **costs,
        decode=decode,
    )


def _settings(card: Card, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings for scoring of each seed with scores: its sets are scored with the same ones."""
    scored = [[result["scores"][name] for name in card.scored_sets if name in result["scores"]] for result in results]
    return [sets[0].get("decode", {}) for sets in scored if sets]


def _mean(values: Sequence[float | None]) -> float | None:
    """None without values, or if one was not finite: leaving out a diverged seed would flatter the row."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _minus(value: float | None, base: float | None) -> float | None:
    if value is None or base is None:
        return None
    return round(value - base, 9)  # 5.29 − 4.92 is 0.37, not 0.3700000000000001


def _note(looks: Sequence[_Seen]) -> str:
    unfinished = [look for look in looks if look.result is None]
    if len(unfinished) == len(looks):  # the most serious first: a failure needs a person
        return "; ".join(dict.fromkeys(sorted((look.note for look in looks), key=_gravity)))
    rest = [f"s{look.seed} {look.note}" for look in unfinished]
    return "; ".join([f"{len(looks) - len(rest)} of {len(looks)} seeds", *rest]) if rest else ""


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
