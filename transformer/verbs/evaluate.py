"""``allelse evaluate``: trained models on sets; what was evaluated before is read from the trials' folders.

Other ``decode`` settings than the trial's leave its result unchanged. Their output has a separate name, such as
``hypotheses/dev@beam8.txt``.
"""

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sweeps.task import Metric, Problem, RefusedError, Trained, Typed, nearest
from transformer.card import CARD, signatures
from transformer.config import TrialConfig
from transformer.faults import NotFiniteError, sentences_of
from transformer.verbs.models import Average, averaging, refusing, translator_of

if TYPE_CHECKING:  # these load torch, which no refusal needs
    from transformer.data.prepared import Prepared
    from transformer.decoding.evaluation import EvaluationSet
    from transformer.decoding.translator import Translator

SetName = Annotated[str | None, typer.Option("--set", help="Only this set, of the trial's data or of sacreBLEU.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
COLUMNS = 120  # of a table in a file or a pipe


def evaluate(
    trials: Sequence[Trained[TrialConfig]],
    typed: Typed,
    set_name: SetName = None,
    average: Average = None,
    as_json: JsonOption = False,
) -> int | str:
    """Evaluate finished trials on each set of their data, or on one set, and save the translations."""
    given = [averaging(trial, average, typed) for trial in trials]
    err = Console(stderr=True, highlight=False)
    try:
        evaluations = evaluations_of(given, set_name, err)
    except NotFiniteError as error:
        err.print(f"[bold red]Failed[/]: {escape(str(error))}", soft_wrap=True)
        return 1
    if as_json:
        print(json.dumps(scores_json(evaluations), indent=1, ensure_ascii=False))
        return 0
    out = Console(highlight=False)
    out.print(scores_table(evaluations), width=None if out.is_terminal else COLUMNS)
    for line in notes(evaluations):
        out.print(escape(line), style="dim", soft_wrap=True)
    return f"allelse translate {shlex.quote(os.path.relpath(given[0].folder))}"


@dataclass(frozen=True)
class Evaluation:
    """One trial on one set; ``decoded`` means that it was translated now."""

    trial: Trained[TrialConfig]
    set_name: str
    scores: dict[str, Any]
    sentences: int
    hypotheses: Path
    decoded: bool


@dataclass(frozen=True)
class _Asked:
    """The requested sets of one trial, in order: ``known`` were evaluated before, ``missing`` are not evaluated yet."""

    trial: Trained[TrialConfig]
    sets: list[str]
    known: dict[str, Evaluation]
    missing: dict[str, "EvaluationSet"]


def evaluations_of(trials: Sequence[Trained[TrialConfig]], set_name: str | None, err: Console) -> list[Evaluation]:
    """Each trial on the named set, or on each set of its data. Raises RefusedError, NotFiniteError."""
    evaluations: list[Evaluation] = []
    for asked in _all_asked(trials, set_name):
        try:
            evaluations += _evaluate(asked, err)
        except RefusedError as error:
            raise RefusedError(error.problems, _outcome(evaluations)) from error
    return evaluations


def _all_asked(trials: Sequence[Trained[TrialConfig]], set_name: str | None) -> list[_Asked]:
    """Reads every set before the first evaluation. Raises RefusedError with every problem."""
    asked, problems = list[_Asked](), list[Problem]()
    for trial in trials:
        try:
            asked.append(_ask(trial, set_name))
        except RefusedError as error:
            problems += error.problems
    if problems:
        raise RefusedError(dict.fromkeys(problems))
    return asked


def _ask(trial: Trained[TrialConfig], set_name: str | None) -> _Asked:
    from transformer.data.prepared import Prepared

    prepared = Prepared(trial.data)
    sets = [set_name] if set_name else prepared.evaluation_sets
    if problems := [problem for name in sets for problem in _unknown(trial, prepared, name)]:
        raise RefusedError(problems)
    known = _recorded(trial, sets)
    missing = {name: _evaluation_set(trial, prepared, name) for name in sets if name not in known}
    return _Asked(trial, sets, known, missing)


def _outcome(evaluations: list[Evaluation]) -> str:
    """What is kept; "" if nothing was evaluated."""
    evaluated = sum(evaluation.decoded for evaluation in evaluations)
    return f"The evaluations that finished before ({evaluated}) are kept and not repeated." if evaluated else ""


def _unknown(trial: Trained[TrialConfig], prepared: "Prepared", name: str) -> list[Problem]:
    from transformer.decoding.score import known_sets

    evaluated = prepared.evaluation_sets
    if name in evaluated or name in known_sets():
        return []
    allowed = f"must be one of {', '.join(evaluated)}, or a test set of sacreBLEU, such as wmt13 or wmt14/full"
    found = f'{trial.config.data.name} has no set "{name}"'
    return [Problem("--set", found, allowed, nearest(name, evaluated) or nearest(name, known_sets()))]


def _recorded(trial: Trained[TrialConfig], sets: Sequence[str], decoded: Sequence[str] = ()) -> dict[str, Evaluation]:
    """The evaluations of these sets that the trial's folder holds."""
    scored, found = trial.scored, dict[str, Evaluation]()
    for name in sets:
        hypotheses = trial.kept(_hypotheses(name))
        if name in scored and hypotheses.is_file():
            sentences = hypotheses.read_bytes().count(b"\n")
            found[name] = Evaluation(trial, name, dict(scored[name]), sentences, hypotheses, name in decoded)
    return found


def _evaluate(asked: _Asked, err: Console) -> list[Evaluation]:
    trial, found = asked.trial, dict(asked.known)
    if asked.missing:
        with sentences_of(trial.name), err.status("") as status:
            translator = translator_of(trial)
            for name, evaluated in asked.missing.items():
                status.update(escape(f"{trial.name}: evaluating {name}"))
                _evaluate_one(trial, evaluated, translator)
        found |= _recorded(trial, list(asked.missing), decoded=list(asked.missing))
    return [found[name] for name in asked.sets]


def _evaluate_one(trial: Trained[TrialConfig], evaluated: "EvaluationSet", translator: "Translator") -> None:
    from transformer.decoding.evaluation import evaluate_set
    from transformer.training.worker_group import Worker, tokens_per_micro_batch

    device = translator.device
    worker = Worker(device=device, tokens_per_micro_batch=tokens_per_micro_batch(trial.config.train, device))
    found = evaluate_set(translator, evaluated, worker)
    assert found is not None, "the only worker is rank zero"
    text = "".join(f"{line}\n" for line in found.hypotheses)
    trial.evaluated(evaluated.name, found.scores, {_hypotheses(evaluated.name): text}, found.samples)


def _hypotheses(set_name: str) -> str:
    return f"hypotheses/{set_name}.txt"


@refusing()
def _evaluation_set(trial: Trained[TrialConfig], prepared: "Prepared", name: str) -> "EvaluationSet":
    """A set of the trial's data, or a test set of sacreBLEU. Raises RefusedError."""
    from transformer.decoding.evaluation import EvaluationSet

    if name in prepared.evaluation_sets:
        return EvaluationSet.of(prepared, name, trial.config.data.target)
    return EvaluationSet.of_sacrebleu(name, prepared.vocabulary, trial.config)


def scores_table(evaluations: list[Evaluation]) -> Table:
    """One section per set, one line per trial; the best value of each column is bold."""
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("set", no_wrap=True)
    shown.add_column("trial", overflow="fold")
    for metric in CARD.printed:
        shown.add_column(metric.label.replace(" ", "\n"), justify="right", no_wrap=True)
    shown.add_column("lines", justify="right", no_wrap=True)
    by_set = sorted(evaluations, key=lambda each: [e.set_name for e in evaluations].index(each.set_name))
    for name, section in groupby(by_set, key=lambda each: each.set_name):
        lines = list(section)
        for place, line in enumerate(lines):
            cells = [_cell(line, metric, lines) for metric in CARD.printed]
            head = name if place == 0 else ""
            last = place + 1 == len(lines)
            shown.add_row(head, escape(line.trial.name), *cells, str(line.sentences), end_section=last)
    return shown


def scores_json(evaluations: list[Evaluation]) -> list[dict[str, Any]]:
    return [
        {
            "trial": line.trial.name,
            "set": line.set_name,
            "step": line.trial.step,
            "sentences": line.sentences,
            **line.scores,
            "hypotheses": str(line.hypotheses),
            "decoded": line.decoded,
        }
        for line in evaluations
    ]


def notes(evaluations: list[Evaluation]) -> list[str]:
    """How to read the numbers, one line per note: signatures, decode settings, reused evaluations."""
    lines = [f"{metric.label}: {metric.unit}" for metric in CARD.printed if metric.signature is None]
    lines += [f"{label}: {each}" for label, each in signatures(line.scores for line in evaluations)]
    for settings in dict.fromkeys(tuple(line.scores["decode"].items()) for line in evaluations):
        lines.append("decode: " + ", ".join(f"{key} {value}" for key, value in settings))
    kept = sum(not line.decoded for line in evaluations)
    if kept:
        lines.append(f"{kept} of {len(evaluations)} evaluations were made before and are read from the trials' folders")
    return lines


def _cell(line: Evaluation, metric: Metric, section: list[Evaluation]) -> str:
    values = [CARD.scores(each.scores).values[metric.name] for each in section]
    value = CARD.scores(line.scores).values[metric.name]
    best = len(section) > 1 and value is not None and value == metric.best(values)
    return f"[bold]{metric.text(value)}[/]" if best else metric.text(value)
