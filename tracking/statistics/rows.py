"""The rows of the study's table: our measurements and the published values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.card import Card
from tracking.statistics.means import Means, decode_note, deltas_of, means_of, minus, reference_of
from tracking.statistics.seeds import Standing, standings
from tracking.study import Study
from tracking.trial import TrialFolder, TrialState
from tracking.words import stopped_at

BASE = "base"
WORD = re.compile(r"[^\s,;:=()]+")


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
    own_change: str  # the change in the row's own words, where they are shown; "" where it follows from `cells`
    stopped: tuple[int, ...]  # finished seeds whose training ended before its steps
    size: str  # in words, where the model is of another size than base's although the row changes no size; or ""
    note: str  # missing | FAILED: why | damaged: file | running | interrupted | "2 of 3 seeds; …" | diverged seeds | ""

    @property
    def status(self) -> str:
        """The text in place of a number: FAILED, damaged, missing, running, interrupted or "not finite"."""
        return "not finite" if self.seeds else re.split("[:;]", self.note)[0].partition(" (")[0]


@dataclass(frozen=True)
class _Reference:
    """The row from which differences are taken. It may have no trial."""

    means: Means
    decode: dict[str, Any]
    published: dict[str, float | None]


def table(study: Study, reference: str = BASE) -> list[TableRow]:
    """Every row of the study in its order, from `study.json` and the trials' files alone.

    Differences are from the row called ``reference``."""
    rows: dict[str, list[Standing]] = {}
    for each in standings(study):
        rows.setdefault(each.trial.row, []).append(each)
    card = study.task
    means = {row: _means(card, seen) for row, seen in rows.items()}
    compared = _Reference(
        means.get(reference, means_of(card, {})),
        reference_of(means[row].decode for row in sorted(means, key=lambda row: row != reference)),
        rows[reference][0].trial.published if reference in rows else {},
    )
    return [_row(study, seen, means[row], compared) for row, seen in rows.items()]


def _means(card: Card, seen: Sequence[Standing]) -> Means:
    counted = {each.trial.seed: each.counted for each in seen if each.counted is not None}
    return means_of(card, counted, {each.trial.seed: each.diverged for each in seen if each.diverged is not None})


def decode_of(rows: Iterable[TableRow]) -> dict[str, Any]:
    """The settings for scoring with which rows are compared: those of base, or of the first row that matches all."""
    return next((row.decode for row in rows if row.decode and not row.mixed_decode and not row.other_decode), {})


def _row(study: Study, seen: Sequence[Standing], means: Means, compared: _Reference) -> TableRow:
    first, card = seen[0].trial, study.task
    paper, names = first.published, [metric.name for metric in card.tabled]
    changed = study.cells.get(first.row, {})  # a row's own change is compared with the reference
    differing = means.decode.other_than(compared.decode).items()
    other = {name: value for name, value in differing if name.rpartition(".")[2] not in changed}
    unlike = [metric.name for metric in card.tabled if metric.decided_by(other)]
    deltas = deltas_of(means, compared.means) | dict.fromkeys(unlike, None)
    texts = {each.trial.seed: stopped_at(each.counted) for each in seen if each.counted is not None}
    stopped = {seed: text for seed, text in sorted(texts.items()) if text}
    notes = (
        _note(study, seen),
        _diverged(means),
        _stops(stopped),
        decode_note(card, means.decode.mixed(), other, compared.decode),
    )
    return TableRow(
        row=first.row,
        group=first.group,
        change=first.change,
        seeds=means.seeds,
        asked=len(seen),
        steps=means.steps,
        scores=means.scores,
        params=means.params,
        flops=means.flops,
        seconds=means.seconds,
        published={name: paper.get(name) for name in (*names, "params_m")},
        deltas=deltas,
        published_deltas={name: minus(paper.get(name), compared.published.get(name)) for name in names},
        cells=changed,
        decode=means.decode.agreed(),
        mixed_decode=tuple(means.decode.mixed()),
        other_decode=tuple(other),
        before_scaling=study.before_scaling.get(first.row, ""),
        seed_values=means.values,
        diverged=tuple(means.diverged),
        sd=means.sd,
        own_change=_own_change(card, first.change, _recorded_words(study, first.row), changed),
        stopped=tuple(stopped),
        size=study.sizes.get(first.row, ""),
        note="; ".join(filter(None, notes)),
    )


def _diverged(means: Means) -> str:
    """Such as "1 of 3 diverged (s2 at step 40): mean of the others"."""
    if not means.diverged:
        return ""
    named = ", ".join(f"s{seed} at step {step}" for seed, step in means.diverged.items())
    return f"{len(means.diverged)} of {len(means.diverged) + means.seeds} diverged ({named})" + (
        ": mean of the others" if means.seeds else ""
    )


def _stops(stopped: Mapping[int, str]) -> str:
    """Such as "stopped at 100 of 500 (s1, s3)"."""
    seeds: dict[str, list[str]] = {}
    for seed, text in stopped.items():
        seeds.setdefault(text, []).append(f"s{seed}")
    return "; ".join(f"{text} ({', '.join(of)})" for text, of in seeds.items())


def _recorded_words(study: Study, row: str) -> str:
    """What the row's file calls its change."""
    return next((each["change"] for each in study.rows if each["row"] == row), "")


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


def _own_change(card: Card, shown: str, recorded: str, cells: Mapping[str, object]) -> str:
    """``shown`` if it is the row's recorded words and says more than its changed cells do; otherwise ""."""
    phrases = [
        card.change_phrases[name].replace("{value}", str(of))
        for name, of in cells.items()
        if name in card.change_phrases
    ]
    if " ".join(recorded.split()) != shown or (len(phrases) == len(cells) and all(each in shown for each in phrases)):
        return ""
    derived = {*cells, *(card.symbols.get(name, name) for name in cells), *map(str, cells.values())}
    derived |= {word for phrase in phrases for word in WORD.findall(phrase)}
    return "" if set(WORD.findall(shown)) <= derived else shown
