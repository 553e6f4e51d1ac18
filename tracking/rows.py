"""The rows of the study's table: what each measured, beside what the paper printed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.study import Study, Trial
from tracking.trial import State

BASE = "base"
DEV = "dev"  # the table's set, as in the paper


@dataclass(frozen=True)
class TableRow:
    """One row, the mean over its finished seeds. None: no such number; `note` says why for our own."""

    row: str
    group: str
    change: str
    seeds: int  # how many are finished
    asked: int  # how many the study holds
    steps: float | None
    ppl: float | None  # dev, per word piece
    bleu: float | None  # dev, 0 to 100
    params: float | None
    flops: float | None  # of the whole training
    seconds: float | None
    paper_ppl: float | None
    paper_bleu: float | None
    paper_params_m: float | None  # millions
    delta_ppl: float | None  # to our own base
    delta_bleu: float | None
    paper_delta_ppl: float | None  # the paper's row to the paper's base
    paper_delta_bleu: float | None
    cells: dict[str, object]
    note: str  # missing | FAILED: why | running | interrupted; "2 of 3 seeds; …" in part; "" when all is there

    @property
    def status(self) -> str:
        """What stands in place of a number: FAILED, missing, running, interrupted or "not finite"."""
        return "not finite" if self.seeds else self.note.partition(":")[0]


@dataclass(frozen=True)
class _Means:
    steps: float | None
    ppl: float | None
    bleu: float | None
    params: float | None
    flops: float | None
    seconds: float | None


def table(study: Study) -> list[TableRow]:
    """Every row of the study in its order, from `study.json` and the trials' files alone."""
    rows: dict[str, list[Trial]] = {}
    for trial in study.trials:
        rows.setdefault(trial.row, []).append(trial)
    finished = {row: _finished(study, trials) for row, trials in rows.items()}
    base = _means(finished.get(BASE, []))
    paper = rows[BASE][0].published if BASE in rows else {}
    return [_row(study, trials, finished[row], base, paper) for row, trials in rows.items()]


def _row(
    study: Study,
    trials: Sequence[Trial],
    results: Sequence[dict[str, Any]],
    base: _Means,
    paper_base: dict[str, float | None],
) -> TableRow:
    first, means = trials[0], _means(results)
    paper = first.published
    return TableRow(
        row=first.row,
        group=first.group,
        change=first.change,
        seeds=len(results),
        asked=len(trials),
        steps=means.steps,
        ppl=means.ppl,
        bleu=means.bleu,
        params=means.params,
        flops=means.flops,
        seconds=means.seconds,
        paper_ppl=paper.get("ppl"),
        paper_bleu=paper.get("bleu"),
        paper_params_m=paper.get("params_m"),
        delta_ppl=_minus(means.ppl, base.ppl),
        delta_bleu=_minus(means.bleu, base.bleu),
        paper_delta_ppl=_minus(paper.get("ppl"), paper_base.get("ppl")),
        paper_delta_bleu=_minus(paper.get("bleu"), paper_base.get("bleu")),
        cells=study.cells.get(first.row, {}),
        note=_note(study, trials, len(results)),
    )


def _finished(study: Study, trials: Iterable[Trial]) -> list[dict[str, Any]]:
    """Results that carry their trial's key; one left by another configuration does not count."""
    results = ((trial, study.trial_folder(trial).result()) for trial in trials)
    return [result for trial, result in results if result is not None and result["key"] == trial.key]


def _means(results: Sequence[dict[str, Any]]) -> _Means:
    dev = [result["scores"].get(DEV, {}) for result in results]
    costs = {name: _mean([result.get(name) for result in results]) for name in ("params", "flops", "seconds")}
    return _Means(
        steps=_mean([result["step"] for result in results]),
        ppl=_mean([scores.get("ppl") for scores in dev]),
        bleu=_mean([scores.get("bleu") for scores in dev]),
        **costs,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """None without values, and when one was not finite: leaving out a diverged seed would flatter the row."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _minus(value: float | None, base: float | None) -> float | None:
    if value is None or base is None:
        return None
    return round(value - base, 9)  # 5.29 − 4.92 is 0.37, not 0.3700000000000001


def _note(study: Study, trials: Sequence[Trial], finished: int) -> str:
    if finished == len(trials):
        return ""
    notes = [(trial, _trial_note(study, trial)) for trial in trials]
    if finished == 0 and len({note for _, note in notes}) == 1:
        return notes[0][1]
    if finished == 0:  # the gravest first: a failure will not mend itself
        return "; ".join(dict.fromkeys(sorted((note for _, note in notes), key=_gravity)))
    rest = [f"s{trial.seed} {note}" for trial, note in notes if note]
    return "; ".join([f"{finished} of {len(trials)} seeds", *rest])


def _trial_note(study: Study, trial: Trial) -> str:
    folder = study.trial_folder(trial)
    state: State = folder.state(trial.key)
    if state == "failed":
        lines = (folder.error() or "").strip().splitlines()
        return f"FAILED: {lines[0] if lines else 'no cause was written'}"
    return "" if state == "finished" else state


def _gravity(note: str) -> int:
    order = ("FAILED", "running", "interrupted", "missing")
    return order.index(note.partition(":")[0])
