"""Finished studies of translation with hypotheses, counts of their sentences, and prepared text; nothing is trained."""

import random
from pathlib import Path
from typing import Any

from small_text import TEXT, sentences, write_text

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.plan import PlannedTrial, recorded
from sweeps.running.recorder import Recorder
from sweeps.worker.prepared import prepared_folder
from tracking.study import write_study
from tracking.trial import statistics_name, statistics_text
from transformer.decoding.evaluation import text_scores

SIZE = 30  # sentences of dev and of test
WORSE = {"base": 0.05, "a_heads_1": 0.4, "a_heads_4": 0.06}
"""How likely a letter of a row's translation is wrong."""


def write_studies(folder: Path) -> Path:
    """Two studies, `one` with three rows and three seeds, `two` with two rows and one seed, of the same text."""
    write_text(folder)
    for name in ("dev", "test"):
        (folder / f"{name}.txt").write_text(sentences(SIZE, len(name)))
    sweep(folder, "sweep.name=one", "sweep.rows=[base,a_heads_1,a_heads_4]", "sweep.seeds=[1,2,3]")
    sweep(folder, "sweep.name=two", "sweep.rows=[base,a_heads_1]", "train.warmup_steps=100")
    return folder


def sweep(folder: Path, *overrides: str) -> None:
    plan = plan_sweep([*TEXT, *overrides], here=folder)
    settings = [trial.settings.trial for trial in plan.trials]
    prepared_folder(plan.task, settings, folder / "data", plan.trials[0].fingerprint)
    write_study(recorded(plan, ["allelse", "sweep", *overrides]))
    for trial in plan.trials:
        finish(trial, {name: (folder / f"{name}.txt").read_text().splitlines() for name in ("dev", "test")})


def finish(planned: PlannedTrial, references: dict[str, list[str]]) -> None:
    trial, folder, recorder = planned.trial, planned.folder, Recorder(planned)
    recorder.begin()
    made, scores = random.Random(trial.name), dict[str, dict[str, Any]]()
    for name, lines in references.items():
        hypotheses = [
            " ".join("x" if made.random() < WORSE[trial.row] else word for word in line.split()) for line in lines
        ]
        of_text, counts = text_scores(hypotheses, lines, "de")
        nats = [made.uniform(1, 2) * (1 + WORSE[trial.row]) for _ in lines]
        pieces = [1 + len(line.split()) for line in lines]
        nll = sum(nats) / sum(pieces)
        scores[name] = {
            "nll": nll,
            "ppl": 2.718281828459045**nll,
            **of_text,
            "decode": vars(planned.settings.trial.decode),
        }
        each = [{"nats": n, "pieces": p, **c} for n, p, c in zip(nats, pieces, counts, strict=True)]
        folder.write_artifact(f"hypotheses/{name}.txt", "".join(f"{line}\n" for line in hypotheses))
        folder.write_artifact(
            statistics_name(name), statistics_text({"key": trial.key, "step": 600, "scores": scores[name]}, each)
        )
    costs = {"params": 9, "flops": 1e12, "seconds": 9.0}
    head = {"key": trial.key, "row": trial.row, "seed": trial.seed, "step": 600, "attempt": 1}
    folder.write_result({**head, **costs, "scores": scores})
    recorder.end("finished")
