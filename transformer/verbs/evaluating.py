"""Trained models on sets: what was evaluated before is read from the trials' folders.

Other ``decode`` settings than the trial's leave its result unchanged. Their output has a separate name, such as
``hypotheses/dev@beam8.txt``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from sweeps.task import Problem, RefusedError, Trained, nearest
from transformer.config import TrialConfig
from transformer.data.prepare import ParallelSet, Prepared, Sentences
from transformer.decoding.evaluate_set import EvaluationSet, evaluate_set
from transformer.decoding.score import known_sets, read_set
from transformer.decoding.translate import Translator
from transformer.finite import sentences_of
from transformer.training.parallel import Worker, tokens_per_micro_batch
from transformer.verbs.models import translator_of
from transformer.verbs.refusing import refusing


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
    missing: dict[str, EvaluationSet]


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


def _unknown(trial: Trained[TrialConfig], prepared: Prepared, name: str) -> list[Problem]:
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


def _evaluate_one(trial: Trained[TrialConfig], evaluated: EvaluationSet, translator: Translator) -> None:
    device = translator.device
    worker = Worker(device=device, tokens_per_micro_batch=tokens_per_micro_batch(trial.config.train, device))
    found = evaluate_set(translator, evaluated, worker)
    assert found is not None, "the only worker is rank zero"
    text = "".join(f"{line}\n" for line in found.hypotheses)
    trial.evaluated(evaluated.name, found.scores, {_hypotheses(evaluated.name): text}, found.samples)


def _hypotheses(set_name: str) -> str:
    return f"hypotheses/{set_name}.txt"


@refusing()
def _evaluation_set(trial: Trained[TrialConfig], prepared: Prepared, name: str) -> EvaluationSet:
    """A set of the trial's data, or a test set of sacreBLEU. Raises RefusedError."""
    data = trial.config.data
    if name in prepared.evaluation_sets:
        return EvaluationSet.of(prepared, name, data.target)
    sides = read_set(name, data.source, data.target)
    pairs = ParallelSet(*(Sentences.of(prepared.vocabulary.encode(lines)) for lines in sides))
    longest, allowed = int(pairs.longest_sides.max()), trial.config.model.max_positions
    if longest > allowed:
        found = f"{name} has a sentence of {longest} pieces"
        raise RefusedError([Problem("--set", found, f"must fit into the {allowed} positions of the model")])
    return EvaluationSet(name, pairs, sides[1], data.target)
