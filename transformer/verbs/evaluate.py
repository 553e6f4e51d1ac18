"""``allelse evaluate``: trained models on sets; what was evaluated before is read from the trials' folders.

Other ``decode`` settings than the trial's leave its result unchanged. Their output has a separate name, such as
``hypotheses/dev@beam8.txt``.
"""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sweeps.task import Metric, Numbers, Problem, RefusedError, Trained, Typed, nearest
from transformer.card import CARD, signatures
from transformer.config import TRAIN_SAMPLE, TrialConfig
from transformer.faults import NotFiniteError, sentences_of
from transformer.verbs.models import Average, averaging, refusing, translator_of

if TYPE_CHECKING:
    from transformer.decoding.evaluation import EvaluationSet  # loads torch, which no refusal needs

SetName = Annotated[str | None, typer.Option("--set", help="Only this set, of the trial's data or of sacreBLEU.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
TABLE_WIDTH = 120  # of a table in a file or a pipe


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
        evaluations = _evaluations(given, set_name, err)
    except NotFiniteError as error:
        err.print(f"[bold red]Failed[/]: {escape(str(error))}", soft_wrap=True)
        return 1
    if as_json:
        print(json.dumps([each.plain() for each in evaluations], indent=1, ensure_ascii=False))
        return 0
    out = Console(highlight=False)
    out.print(_table(evaluations), width=None if out.is_terminal else TABLE_WIDTH)
    for line in _notes(evaluations):
        out.print(escape(line), style="dim", soft_wrap=True)
    return f"allelse translate {shlex.quote(os.path.relpath(given[0].folder))}"


@dataclass(frozen=True)
class Evaluation:
    """One trial on one set; ``decoded`` means that it was translated now."""

    trial: Trained[TrialConfig]
    set_name: str
    scores: Numbers
    decoded: bool

    @property
    def hypotheses(self) -> Path | None:
        """None for a set that is not translated."""
        from transformer.decoding.evaluation import hypotheses_file

        return self.trial.kept(hypotheses_file(self.set_name)) if is_translated(self.set_name) else None

    @property
    def sentences(self) -> int:
        statistics = self.trial.kept(f"statistics/{self.set_name}.jsonl")
        return statistics.read_bytes().count(b"\n") - 1  # its first line holds the scores

    def plain(self) -> dict[str, Any]:
        about = {"trial": self.trial.name, "set": self.set_name, "step": self.trial.step, "sentences": self.sentences}
        hypotheses = self.hypotheses and str(self.hypotheses)
        return {**about, **self.scores, "hypotheses": hypotheses, "decoded": self.decoded}


def is_translated(set_name: str) -> bool:
    """Whether its evaluation has hypotheses."""
    return set_name not in CARD.sets_without_artifacts


Asked = dict[str, "EvaluationSet | None"]
"""The requested sets of one trial, in order; None for one that was evaluated before."""


def _evaluations(trials: Sequence[Trained[TrialConfig]], set_name: str | None, err: Console) -> list[Evaluation]:
    """Each trial on the named set, or on each set of its data. Raises RefusedError, NotFiniteError."""
    evaluations: list[Evaluation] = []
    for trial, asked in zip(trials, _all_asked(trials, set_name), strict=True):
        try:
            _evaluate(trial, asked, err)
        except RefusedError as error:
            done = sum(evaluation.decoded for evaluation in evaluations)
            kept = f"The evaluations that finished before ({done}) are kept and not repeated." if done else ""
            raise RefusedError(error.problems, kept) from error
        scored = trial.scored
        evaluations += [Evaluation(trial, name, scored[name], each is not None) for name, each in asked.items()]
    return evaluations


def _all_asked(trials: Sequence[Trained[TrialConfig]], set_name: str | None) -> list[Asked]:
    """Reads every set before the first evaluation. Raises RefusedError with every problem."""
    asked, problems = list[Asked](), list[Problem]()
    for trial in trials:
        try:
            with refusing():
                asked.append(dict(_asked(trial, set_name)))
        except RefusedError as error:
            problems += error.problems
    if problems:
        raise RefusedError(dict.fromkeys(problems))
    return asked


def _asked(trial: Trained[TrialConfig], set_name: str | None) -> Iterator[tuple[str, "EvaluationSet | None"]]:
    """The requested sets: of the trial's data, a sample of its training pairs, or a test set of sacreBLEU.

    Raises RefusedError.
    """
    from transformer.data.prepared import Prepared
    from transformer.data.sacrebleu_sets import known_sets
    from transformer.decoding.evaluation import EvaluationSet, hypotheses_file
    from transformer.decoding.tokenizer import check_tokenizer

    prepared, config, scored = Prepared(trial.data), trial.config, trial.scored
    own, others = [*prepared.evaluation_sets, TRAIN_SAMPLE], known_sets()
    usual = own if config.decode.train_sample else prepared.evaluation_sets
    check_tokenizer(config.data.bleu_tokenizer)
    for name in [set_name] if set_name else usual:
        if name not in own and name not in others:
            allowed = f"must be one of {', '.join(own)}, or a test set of sacreBLEU, such as wmt13 or wmt14/full"
            hint = nearest(name, own) or nearest(name, others)
            raise RefusedError([Problem("--set", f'{config.data.name} has no set "{name}"', allowed, hint)])
        if name in scored and (not is_translated(name) or trial.kept(hypotheses_file(name)).is_file()):
            yield name, None
        elif name in own:
            yield name, EvaluationSet.of(prepared, name, config)
        else:
            yield name, EvaluationSet.of_sacrebleu(name, prepared.vocabulary, config)


def _evaluate(trial: Trained[TrialConfig], asked: Asked, err: Console) -> None:
    """Evaluate what was not evaluated before, and keep it in the trial's folder."""
    if not any(asked.values()):
        return
    from transformer.training.worker_group import Worker, tokens_per_micro_batch
    from transformer.work import score_set

    with sentences_of(trial.name), err.status("") as status:
        translator = translator_of(trial)
        tokens = tokens_per_micro_batch(trial.config.train, translator.device)
        for name, evaluated in asked.items():
            if evaluated is not None:
                status.update(escape(f"{trial.name}: evaluating {name}"))
                score_set(trial, name, evaluated, translator, Worker(0, 1, translator.device, tokens))


def _table(evaluations: list[Evaluation]) -> Table:
    """One section per set, one line per trial; the best value of each column is bold."""
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("set", no_wrap=True)
    shown.add_column("trial", overflow="fold")
    varied = _varied(evaluations)
    if varied:
        shown.add_column("settings", overflow="fold")
    for metric in CARD.printed:
        shown.add_column(metric.label.replace(" ", "\n"), justify="right", no_wrap=True)
    shown.add_column("lines", justify="right", no_wrap=True)
    sets = list(dict.fromkeys(each.set_name for each in evaluations))
    by_set = sorted(evaluations, key=lambda each: sets.index(each.set_name))
    for name, section in groupby(by_set, key=lambda each: each.set_name):
        lines = list(section)
        columns = [_column(metric, lines) for metric in CARD.printed]
        for place, (line, *cells) in enumerate(zip(lines, *columns, strict=True)):
            head, last = name if place == 0 else "", place + 1 == len(lines)
            words = [_settings_text(line, varied)] if varied else []
            shown.add_row(head, escape(line.trial.name), *words, *cells, str(line.sentences), end_section=last)
    return shown


def _varied(evaluations: list[Evaluation]) -> list[str]:
    """The settings that do not all have one value."""
    settings = [each.scores["decode"] for each in evaluations]
    names = dict.fromkeys(name for each in settings for name in each)
    return [name for name in names if len({repr(each.get(name)) for each in settings}) > 1]


def _settings_text(evaluation: Evaluation, names: Sequence[str]) -> str:
    """Such as "beam 8, alpha 0.6"."""
    settings = evaluation.scores["decode"]
    return ", ".join(f"{name} {settings.get(name, 'default')}" for name in names)


def _column(metric: Metric, section: list[Evaluation]) -> list[str]:
    values = [CARD.scores(each.scores).values[metric.name] for each in section]
    best = metric.best(values) if len(values) > 1 else None
    return [
        f"[bold]{metric.text(value)}[/]" if value is not None and value == best else metric.text(value)
        for value in values
    ]


def _notes(evaluations: list[Evaluation]) -> Iterator[str]:
    """How to read the numbers, one line per note: signatures, decode settings, reused evaluations."""
    scores = [each.scores for each in evaluations]
    yield from (f"{metric.label}: {metric.unit}" for metric in CARD.printed if metric.signature is None)
    yield from (f"{label}: {each}" for label, each in signatures(scores))
    for settings in dict.fromkeys(tuple(each["decode"].items()) for each in scores):
        yield "decode: " + ", ".join(f"{key} {value}" for key, value in settings)
    yield from _unmeasured(evaluations)
    if kept := sum(not each.decoded for each in evaluations):
        yield f"{kept} of {len(evaluations)} evaluations were made before and are read from the trials' folders"


def _unmeasured(evaluations: list[Evaluation]) -> Iterator[str]:
    """Metrics that earlier versions did not measure, and how to measure them now."""
    translated = [each for each in evaluations if is_translated(each.set_name)]
    for metric in CARD.printed:
        lacking = [each for each in translated if metric.name not in each.scores]
        if lacking:
            name, trial = lacking[0].set_name, lacking[0].trial.name
            yield f"{len(lacking)} of {len(evaluations)} evaluations are of an earlier version without {metric.label}"
            yield f"To measure it: move statistics/{name}.jsonl out of {trial}, and evaluate --set {name} again"
