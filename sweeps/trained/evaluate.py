"""``ablate evaluate``: evaluates finished trials on sets, and reuses earlier evaluations from their folders.

Other ``decode`` settings than the trial's leave its result unchanged. Their output has a separate name, such as
``hypotheses/dev@beam8.txt``.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from sweeps.planning.trial_lock import trial_lock
from sweeps.schema import Problem, RefusedError, nearest
from sweeps.trained.models import of_trial
from sweeps.trained.request import Request
from sweeps.trained.saved_trial import SavedTrial
from sweeps.versions import settled
from tracking.damage import unless_lost
from transformer.config import DecodeConfig
from transformer.data.prepare import ParallelSet, Sentences
from transformer.decoding.evaluate_set import EvaluationSet, evaluate_set
from transformer.decoding.score import known_set, nearest_set, read_set
from transformer.decoding.translate import Translator
from transformer.finite import sentences_of
from transformer.training.parallel import Worker


@dataclass(frozen=True)
class Evaluation:
    """One trial on one set; ``decoded`` means that it was translated now."""

    trial: SavedTrial
    set_name: str
    scores: dict[str, Any]
    sentences: int
    hypotheses: Path
    decoded: bool


@dataclass(frozen=True)
class _Asked:
    """The requested sets of one trial, in order: ``known`` were evaluated before, ``missing`` are not evaluated yet."""

    trial: SavedTrial
    sets: list[str]
    known: dict[str, Evaluation]
    missing: dict[str, EvaluationSet]


def evaluate(request: Request, trials: list[SavedTrial], err: Console) -> list[Evaluation]:
    """Each trial on the named set, or on each set of its data. Raises RefusedError, NotFiniteError."""
    evaluations: list[Evaluation] = []
    for asked in _all_asked(request, trials):
        try:
            evaluations += _evaluate(asked, request, err)
        except RefusedError as error:
            raise RefusedError(error.problems, _outcome(evaluations)) from error
    return evaluations


def recorded_scores(trial: SavedTrial, decode: DecodeConfig) -> dict[str, dict[str, Any]]:
    """Scores by set that the trial's folder holds for its model with these settings. Evaluates nothing."""
    known = {name: scores for name, scores in trial.result()["scores"].items() if scores["decode"] == settled(decode)}
    others = {name: _recorded(trial, name, decode) for name in _sets_of(trial) if name not in known}
    return known | {name: evaluation.scores for name, evaluation in others.items() if evaluation is not None}


def _all_asked(request: Request, trials: list[SavedTrial]) -> list[_Asked]:
    """Reads every set before the first evaluation. Raises RefusedError with every problem."""
    asked, problems = list[_Asked](), list[Problem]()
    for trial in trials:
        try:
            asked.append(_ask(trial, request))
        except RefusedError as error:
            problems += error.problems
    if problems:
        raise RefusedError(dict.fromkeys(problems))
    return asked


def _ask(trial: SavedTrial, request: Request) -> _Asked:
    sets, decode = [request.set_name] if request.set_name else _sets_of(trial), request.decoding(trial.config.decode)
    if problems := [problem for name in sets for problem in _unknown(trial, name)]:
        raise RefusedError(problems)
    recorded = {name: _recorded(trial, name, decode) for name in sets}
    known = {name: evaluation for name, evaluation in recorded.items() if evaluation is not None}
    return _Asked(trial, sets, known, {name: _evaluation_set(trial, name) for name in sets if name not in known})


def _outcome(evaluations: list[Evaluation]) -> str:
    """What is kept; "" if nothing was evaluated."""
    evaluated = sum(evaluation.decoded for evaluation in evaluations)
    return f"The evaluations that finished before ({evaluated}) are kept and not repeated." if evaluated else ""


def _sets_of(trial: SavedTrial) -> list[str]:
    return trial.prepared().evaluation_sets


def _unknown(trial: SavedTrial, name: str) -> list[Problem]:
    evaluated = _sets_of(trial)
    if name in evaluated or known_set(name):
        return []
    allowed = f"must be one of {', '.join(evaluated)}, or a test set of sacreBLEU, such as wmt13 or wmt14/full"
    found = f'{trial.config.data.name} has no set "{name}"'
    return [Problem("--set", found, allowed, nearest(name, evaluated) or nearest_set(name))]


def _evaluate(asked: _Asked, request: Request, err: Console) -> list[Evaluation]:
    trial, found = asked.trial, dict(asked.known)
    if asked.missing:
        with sentences_of(trial.name), trial_lock(trial.folder, "wait for it"), err.status("") as status:
            translator = of_trial(trial, request)
            for name, evaluated in asked.missing.items():
                status.update(escape(f"{trial.name}: evaluating {name}"))
                found[name] = _evaluate_one(trial, name, evaluated, translator, request)
    return [found[name] for name in asked.sets]


def _recorded(trial: SavedTrial, name: str, decode: DecodeConfig) -> Evaluation | None:
    """The evaluation that the trial's folder holds for this set, checkpoint and settings, if any."""
    label = _label(trial, name, decode)
    statistics = unless_lost(partial(trial.folder.statistics, label), None)
    hypotheses = trial.folder.hypotheses_path(label)
    if statistics is None or not hypotheses.is_file():
        return None
    head, sentences = statistics
    same = (head["key"], head["step"]) == (trial.key, trial.result()["step"])
    if not same or head["scores"]["decode"] != settled(decode):
        return None
    return Evaluation(trial, name, head["scores"], len(sentences), hypotheses, decoded=False)


def _evaluate_one(
    trial: SavedTrial, name: str, evaluated: EvaluationSet, translator: Translator, request: Request
) -> Evaluation:
    worker = Worker(device=translator.device, tokens_per_micro_batch=request.shared.cluster.tokens_per_micro_batch)
    evaluation = evaluate_set(translator, evaluated, worker)
    assert evaluation is not None, "the only worker is rank zero"
    folder, result, label = trial.folder, trial.result(), _label(trial, name, translator.decode)
    folder.write_hypotheses(label, evaluation.hypotheses)
    head = {"key": trial.key, "step": result["step"], "scores": evaluation.scores}
    folder.write_statistics(label, head, evaluation.statistics)
    scores = result["scores"] | {name: evaluation.scores}
    alike = all(each["decode"] == evaluation.scores["decode"] for each in scores.values())
    if label == name and alike:  # after a change of settings `ablate sweep` evaluates all sets again: results never mix
        folder.write_result(result | {"scores": scores})
    hypotheses = folder.hypotheses_path(label)
    return Evaluation(trial, name, evaluation.scores, len(evaluation.hypotheses), hypotheses, decoded=True)


def _label(trial: SavedTrial, name: str, decode: DecodeConfig) -> str:
    """The set's name, with the settings that differ from the trial's: dev@beam8."""
    own = vars(trial.config.decode)
    other = [f"{key}{value:g}" for key, value in vars(decode).items() if value != own[key]]
    return "@".join([name, "-".join(other)]) if other else name


def _evaluation_set(trial: SavedTrial, name: str) -> EvaluationSet:
    """A set of the trial's data, or a test set of sacreBLEU. Raises RefusedError."""
    data, prepared = trial.config.data, trial.prepared()
    if name in prepared.evaluation_sets:
        return EvaluationSet.of(prepared, name, data.target)
    sides = read_set(name, data.source, data.target)
    pairs = ParallelSet(*(Sentences.of(prepared.vocabulary.encode(lines)) for lines in sides))
    longest, allowed = int(pairs.longest_sides.max()), trial.config.model.max_positions
    if longest > allowed:
        found = f"{name} has a sentence of {longest} pieces"
        raise RefusedError([Problem("--set", found, f"must fit into the {allowed} positions of the model")])
    return EvaluationSet(name, pairs, sides[1], data.target)
