"""``allelse evaluate``: scores of trained models on sets.

A set that was evaluated before is read from the trial's folder. If you type ``decode`` settings
that differ from the trial's, its result stays unchanged: their output has a separate name, such as
``hypotheses/dev@beam8.txt``.
"""

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sweeps.task import (
    Metric,
    Numbers,
    Problem,
    RefusedError,
    Trained,
    Typed,
    nearest,
    without_study,
)
from transformer.card import CARD, signatures
from transformer.config import TRAIN_SAMPLE, TrialConfig
from transformer.faults import NotFiniteError, sentences_of
from transformer.verbs.models import Average, averaging, refusing, translator_of

if TYPE_CHECKING:
    from transformer.decoding.evaluation import EvaluationSet  # loads torch, which no refusal needs

SetOption = typer.Option("--set", help="Only this set, of the trial's data or of sacreBLEU.")
SetName = Annotated[str | None, SetOption]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
TABLE_WIDTH = 120
"""The width of a table in a file or a pipe."""


def evaluate(
    trials: Sequence[Trained[TrialConfig]],
    typed: Typed,
    set_name: SetName = None,
    average: Average = None,
    as_json: JsonOption = False,
) -> int | str:
    """Evaluate finished trials on each set of their data, or on one set, and save the
    translations."""
    trials = [averaging(trial, average, typed) for trial in trials]
    err = Console(stderr=True, highlight=False, emoji=False)
    try:
        evaluations = _evaluate_trials(trials, set_name, err)
    except NotFiniteError as error:
        err.print(f"[bold red]Failed[/]: {escape(str(error))}", soft_wrap=True)
        return 1
    if as_json:
        rows = [evaluation.plain() for evaluation in evaluations]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    out = Console(highlight=False, emoji=False)
    out.print(_table(evaluations), width=None if out.is_terminal else TABLE_WIDTH)
    for line in _notes(evaluations):
        out.print(escape(line), style="dim", soft_wrap=True)
    return _translate_command(trials[0], average, typed)


def _translate_command(trial: Trained[TrialConfig], average: int | None, typed: Typed) -> int | str:
    """The command that translates with the model as it was scored; 0, so that there is none, for
    an earlier checkpoint."""
    if trial.step != trial.config.train.steps:
        return 0
    averaging_words = [] if average is None else ["--average", str(average)]
    overrides = [f"{key}={value}" for key, value in typed.items()]
    words = ["allelse", "translate", os.path.relpath(trial.folder), *averaging_words, *overrides]
    return shlex.join(words)


@dataclass(frozen=True)
class Evaluation:
    """One trial on one set; ``decoded`` says whether this command translated the set."""

    trial: Trained[TrialConfig]
    set_name: str
    scores: Numbers
    decoded: bool

    @property
    def hypotheses(self) -> Path | None:
        """The file of the translations; None for a set that is not translated."""
        if not is_translated(self.set_name):
            return None
        from transformer.decoding.evaluation import hypotheses_file

        return self.trial.kept(hypotheses_file(self.set_name))

    @property
    def sentences(self) -> int:
        """The number of sentences in the set."""
        return self.statistics.read_bytes().count(b"\n") - 1  # its first line holds the scores

    @property
    def statistics(self) -> Path:
        """The file with the counts of each sentence."""
        return self.trial.kept(f"statistics/{self.set_name}.jsonl")

    def plain(self) -> dict[str, Any]:
        """The evaluation as JSON data."""
        return {
            "trial": self.trial.name,
            "set": self.set_name,
            "step": self.trial.step,
            "sentences": self.sentences,
            **self.scores,
            "hypotheses": self.hypotheses and str(self.hypotheses),
            "decoded": self.decoded,
        }


def is_translated(set_name: str) -> bool:
    """Whether the evaluation of this set has hypotheses."""
    return set_name not in CARD.sets_without_artifacts


Requests = dict[str, "EvaluationSet | None"]
"""The requested sets of one trial, in order; None for a set that was evaluated before."""


def _evaluate_trials(
    trials: Sequence[Trained[TrialConfig]],
    set_name: str | None,
    err: Console,
) -> list[Evaluation]:
    """Evaluate each trial on the named set, or on each set of its data.

    Raises RefusedError, NotFiniteError.
    """
    evaluations: list[Evaluation] = []
    for trial, requests in zip(trials, _read_requests(trials, set_name), strict=True):
        try:
            _evaluate_trial(trial, requests, err)
        except RefusedError as error:
            finished = sum(evaluation.decoded for evaluation in evaluations)
            note = ""
            if finished:
                earlier = f"The evaluations that finished before ({finished})"
                note = f"{earlier} are kept and not repeated."
            raise RefusedError(error.problems, note) from error
        scores = trial.scored
        for name, evaluation_set in requests.items():
            decoded = evaluation_set is not None
            evaluations.append(Evaluation(trial, name, scores[name], decoded))
    return evaluations


def _read_requests(
    trials: Sequence[Trained[TrialConfig]],
    set_name: str | None,
) -> list[Requests]:
    """Read every set of every trial before the first evaluation.

    Raises RefusedError with every problem.
    """
    requests: list[Requests] = []
    problems: list[Problem] = []
    for trial in trials:
        try:
            with refusing():
                requests.append(dict(_requested_sets(trial, set_name)))
        except RefusedError as error:
            problems += error.problems
    if problems:
        raise RefusedError(dict.fromkeys(problems))
    return requests


def _requested_sets(
    trial: Trained[TrialConfig],
    set_name: str | None,
) -> Iterator[tuple[str, "EvaluationSet | None"]]:
    """The sets of the trial's data, or only the named set; None if it was evaluated before.

    A named set may also be the sample of training pairs or a test set of sacreBLEU. Raises
    RefusedError, FaultyError.
    """
    from transformer.data.prepared import Prepared
    from transformer.data.sacrebleu_sets import known_sets
    from transformer.decoding.evaluation import EvaluationSet
    from transformer.decoding.tokenizer import check_tokenizer

    prepared = Prepared(trial.data)
    config = trial.config
    scores = trial.scored
    data_sets = [*prepared.evaluation_sets, TRAIN_SAMPLE]
    sacrebleu_sets = known_sets()
    default_sets = data_sets if config.decode.train_sample else prepared.evaluation_sets
    check_tokenizer(config.data.bleu_tokenizer)
    for name in [set_name] if set_name else default_sets:
        if name not in data_sets and name not in sacrebleu_sets:
            data_names = ", ".join(data_sets)
            examples = "a test set of sacreBLEU, such as wmt13 or wmt14/full"
            problem = f'{config.data.name} has no set "{name}"'
            hint = nearest(name, data_sets) or nearest(name, sacrebleu_sets)
            allowed = f"must be one of {data_names}, or {examples}"
            raise RefusedError([Problem("--set", problem, allowed, hint)])
        if name in scores and _has_output(trial, name):
            yield name, None
        elif name in data_sets:
            yield name, EvaluationSet.of(prepared, name, config)
        else:
            yield name, EvaluationSet.of_sacrebleu(name, prepared.vocabulary, config)


def _has_output(trial: Trained[TrialConfig], set_name: str) -> bool:
    """Whether the trial's folder holds the hypotheses of this set, if it has any."""
    if not is_translated(set_name):
        return True
    from transformer.decoding.evaluation import hypotheses_file

    return trial.kept(hypotheses_file(set_name)).is_file()


def _evaluate_trial(trial: Trained[TrialConfig], requests: Requests, err: Console) -> None:
    """Evaluate the sets that were not evaluated before, and save the result in the trial's folder.

    Raises RefusedError, NotFiniteError.
    """
    if not any(requests.values()):
        return
    from transformer.training.worker_group import Worker, tokens_per_micro_batch
    from transformer.work import score_set

    with sentences_of(trial.name), err.status("") as status:
        translator = translator_of(trial)
        tokens = tokens_per_micro_batch(trial.config.train, translator.device)
        worker = Worker(0, 1, translator.device, tokens)
        for name, evaluation_set in requests.items():
            if evaluation_set is not None:
                status.update(escape(f"{trial.name}: evaluating {name}"))
                score_set(trial, name, evaluation_set, translator, worker)


def _table(evaluations: list[Evaluation]) -> Table:
    """One section per set, one line per trial; the best value of each column is bold."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("set\n  trial", overflow="fold")
    varied_settings = _varied_settings(evaluations)
    if varied_settings:
        table.add_column("settings", overflow="fold")
    for metric in CARD.printed:
        table.add_column(metric.label.replace(" ", "\n"), justify="right", no_wrap=True)
    table.add_column("lines", justify="right", no_wrap=True)
    shown_names = without_study(evaluation.trial.name for evaluation in evaluations)
    for set_name in dict.fromkeys(evaluation.set_name for evaluation in evaluations):
        section = [evaluation for evaluation in evaluations if evaluation.set_name == set_name]
        _add_section(table, set_name, section, shown_names, varied_settings)
    return table


def _add_section(
    table: Table,
    set_name: str,
    section: list[Evaluation],
    shown_names: Mapping[str, str],
    varied_settings: list[str],
) -> None:
    """Add the name of a set and its lines to the table."""
    table.add_row(set_name)
    columns = [_column(metric, section) for metric in CARD.printed]
    for number, (evaluation, *metrics) in enumerate(zip(section, *columns, strict=True)):
        shown_name = shown_names[evaluation.trial.name]
        cells = [f"  {escape(shown_name)}"]
        if varied_settings:
            cells.append(_settings_text(evaluation, varied_settings))
        cells += [*metrics, str(evaluation.sentences)]
        table.add_row(*cells, end_section=number + 1 == len(section))


def _varied_settings(evaluations: list[Evaluation]) -> list[str]:
    """The names of the decode settings that differ between evaluations."""
    settings_by_set = [evaluation.scores["decode"] for evaluation in evaluations]
    varied_names = []
    for name in dict.fromkeys(name for settings in settings_by_set for name in settings):
        values = {repr(settings.get(name)) for settings in settings_by_set}
        if len(values) > 1:
            varied_names.append(name)
    return varied_names


def _settings_text(evaluation: Evaluation, names: Sequence[str]) -> str:
    """The decode settings with these names, such as "beam 8, alpha 0.6"."""
    settings = evaluation.scores["decode"]
    return ", ".join(f"{name} {settings.get(name, 'default')}" for name in names)


def _column(metric: Metric, section: list[Evaluation]) -> list[str]:
    """The cells of a metric in one section; the best of several values is bold."""
    values = [CARD.scores(evaluation.scores).values[metric.name] for evaluation in section]
    best = metric.best(values) if len(values) > 1 else None
    cells = []
    for value in values:
        text = metric.text(value)
        is_best = value is not None and value == best
        cells.append(f"[bold]{text}[/]" if is_best else text)
    return cells


def _notes(evaluations: list[Evaluation]) -> Iterator[str]:
    """How to read the numbers, one line per note: units, signatures, decode settings, reuse."""
    scores = [evaluation.scores for evaluation in evaluations]
    for metric in CARD.printed:
        if metric.signature is None:
            yield f"{metric.label}: {metric.unit}"
    for label, signature in signatures(scores):
        yield f"{label}: {signature}"
    for settings in dict.fromkeys(tuple(set_scores["decode"].items()) for set_scores in scores):
        yield "decode: " + ", ".join(f"{key} {value}" for key, value in settings)
    yield from _unmeasured(evaluations)
    reused = sum(not evaluation.decoded for evaluation in evaluations)
    if reused:
        counts = f"{reused} of {len(evaluations)} evaluations"
        yield f"{counts} were made before and are read from the trials' folders"


def _unmeasured(evaluations: list[Evaluation]) -> Iterator[str]:
    """Metrics that earlier versions did not measure, and how to measure them now."""
    translated = [evaluation for evaluation in evaluations if is_translated(evaluation.set_name)]
    for metric in CARD.printed:
        lacking = [evaluation for evaluation in translated if metric.name not in evaluation.scores]
        if lacking:
            path = os.path.relpath(lacking[0].statistics)
            counts = f"{len(lacking)} of {len(evaluations)} evaluations"
            yield f"{counts} are of an earlier version without {metric.label}"
            yield f"To measure it: move {path} away, and type the same command again"
