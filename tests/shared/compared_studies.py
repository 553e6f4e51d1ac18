"""Finished studies of translation with hypotheses, counts of their sentences, and prepared text;
nothing is trained."""

import math
import random
from pathlib import Path
from typing import Any

import finished_trials
from small_text import TEXT, sentences, write_text

from sweeps.planning.planned_trial import PlannedTrial
from sweeps.worker.prepared import TaskData
from tracking.trial import statistics_name, statistics_text
from transformer.decoding.evaluation import text_scores

SETS = ("dev", "test")
SIZE = 30  # sentences of each
WORSE = {"base": 0.05, "a_heads_1": 0.4, "a_heads_4": 0.06}
"""How likely a letter of a row's translation is wrong."""


def write_studies(folder: Path) -> Path:
    """Two studies, `one` with three rows and three seeds, `two` with two rows and one seed, of the
    same text."""
    write_text(folder)
    for name in SETS:
        (folder / f"{name}.txt").write_text(sentences(SIZE, len(name)))
    sweep(folder, "sweep.name=one", "sweep.rows=[base,a_heads_1,a_heads_4]", "sweep.seeds=[1,2,3]")
    sweep(folder, "sweep.name=two", "sweep.rows=[base,a_heads_1]", "train.warmup_steps=100")
    return folder


def sweep(folder: Path, *overrides: str) -> None:
    plan = finished_trials.sweep(folder, *TEXT, *overrides, ends=0)
    settings = [trial.settings.config for trial in plan.trials]
    TaskData(plan.task, folder / "data", plan.trials[0].fingerprint).open(settings)
    for trial in plan.trials:
        chance = random.Random(trial.trial.name)
        scores = {
            name: scored(trial, chance, name, (folder / f"{name}.txt").read_text().splitlines())
            for name in SETS
        }
        finished_trials.finish(trial, scores)


def worsened(line: str, worse: float, chance: random.Random) -> str:
    """The line with this share of its words replaced."""
    return " ".join("x" if chance.random() < worse else word for word in line.split())


def right_pieces(pieces: int, worse: float, chance: random.Random) -> int:
    """How many pieces are predicted, if this share of them is not."""
    return sum(chance.random() > worse for _ in range(pieces))


def scored(
    planned: PlannedTrial, chance: random.Random, name: str, references: list[str]
) -> dict[str, Any]:
    """The scores of a set, whose hypotheses and counts are written."""
    worse = WORSE[planned.trial.row]
    folder = planned.folder
    hypotheses = [worsened(line, worse, chance) for line in references]
    text_metrics, counts = text_scores(hypotheses, references, "de")
    nats = [chance.uniform(1, 2) * (1 + worse) for _ in references]
    pieces = [1 + len(line.split()) for line in references]
    right = [right_pieces(count, worse, chance) for count in pieces]
    nll = sum(nats) / sum(pieces)
    accuracy = sum(right) / sum(pieces)
    scores = {
        "nll": nll,
        "ppl": math.exp(nll),
        "accuracy": accuracy,
        **text_metrics,
        "decode": planned.scoring,
    }
    predicted = zip(nats, pieces, right, counts, strict=True)
    samples = [{"nats": n, "pieces": p, "right": r, **c} for n, p, r, c in predicted]
    head = {"key": planned.trial.key, "step": 600, "scores": scores}
    folder.write_artifact(f"hypotheses/{name}.txt", "".join(f"{line}\n" for line in hypotheses))
    folder.write_artifact(statistics_name(name), statistics_text(head, samples))
    return scores
