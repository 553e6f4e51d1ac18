"""Trials as a sweep leaves them, without training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.plan import Plan
from sweeps.planning.plan_record import study_with_plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.running.recording.recorder import Recorder
from tracking.study import Study, read_study, write_study


def finish(planned: PlannedTrial, scores: Mapping[str, Any] | None = None) -> None:
    """Write the files of a finished trial, with these scores by set, or the same ones on both."""
    settings = {"signature": "", "decode": planned.scoring}
    default_scores = {"nll": 1.5, "ppl": 4.5, "bleu": 30.0, "chrf": 50.0, **settings}
    head = {
        "key": planned.trial.key,
        "row": planned.trial.row,
        "seed": planned.trial.seed,
        "step": 600,
        "attempt": 1,
    }
    costs = {"params": planned.costs.params, "flops": 1e12, "seconds": 9.0}
    recorder = Recorder(planned)
    recorder.begin()
    planned.folder.write_result(
        {**head, **costs, "scores": scores or {"dev": default_scores, "test": default_scores}}
    )
    recorder.end("finished")


def sweep(folder: Path, *overrides: str, add: bool = False, ends: int | None = None) -> Plan:
    """What `allelse sweep` leaves of its first trials, or of all: the study recorded, these trials
    finished."""
    planned = plan_sweep(list(overrides), add, here=folder)
    write_study(study_with_plan(planned, ["allelse", "sweep", *overrides]))
    for trial in planned.pending[:ends]:
        finish(trial)
    return planned


def study_in(folder: Path, name: str = "synthetic-tiny") -> Study:
    return read_study(folder / "runs" / name)
