"""Studies on disk as a sweep leaves them, and their runs in MLflow."""

from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient

from tracking.attempts import own_process
from tracking.mlflow import sync
from tracking.study import Study, StudyTrial, write_study
from tracking.trial import TrialFolder
from transformer.card import CARD

EXPERIMENT = "tests"
Store = tuple[MlflowClient, str]
"""MLflow's own client, and the experiment's number."""
PUBLISHED: dict[str, dict[str, float | None]] = {
    "base": {"ppl": 4.92, "bleu": 25.8, "params_m": 65.0},
    "a_heads_1": {"ppl": 5.29, "bleu": 24.9, "params_m": None},
    "c_layers_2": {"ppl": 6.11, "bleu": 23.7, "params_m": 36.0},
}
GROUPS = {"base": "base", "a_heads_1": "A", "c_layers_2": "C"}
DECODE = {"beam": 4, "alpha": 0.6, "max_extra": 50, "average_checkpoints": 1}
CELLS: dict[str, dict[str, object]] = {
    "base": {"n_layers": 6, "d_model": 512, "d_ff": 2048, "n_heads": 8, "d_k": 64, "d_v": 64}
    | {"p_drop": 0.1, "label_smoothing": 0.1, "steps": 30, "positions": "sinusoidal"},
    "a_heads_1": {"n_heads": 1, "d_k": 512, "d_v": 512},
    "c_layers_2": {"n_layers": 2, "attention_dropout": 0.1},
}


def make_study(folder: Path, seeds: dict[str, list[int]]) -> Study:
    trials = tuple(
        StudyTrial(
            row,
            GROUPS[row],
            f"change of {row}",
            seed,
            f"{folder.name}-{row}-{seed}",
            PUBLISHED[row],
        )
        for row, numbers in seeds.items()
        for seed in numbers
    )
    study = Study(
        folder,
        trials,
        CELLS,
        ({"ts": "2030-01-01T00:00:00Z", "command": "allelse sweep"},),
        task=CARD,
    )
    write_study(study)
    return study


def begin(folder: TrialFolder) -> int:
    number = 1 + max((attempt.number for attempt in folder.attempts.all()), default=0)
    folder.begin_attempt(number, own_process())
    return number


def report(
    folder: TrialFolder, attempt: int, steps: range, checkpoints: tuple[int, ...] = ()
) -> None:
    for step in steps:
        assert folder.report(
            attempt,
            step,
            {"loss": 10.0 * attempt + step},
            checkpoint=step if step in checkpoints else None,
        )


def result(trial: StudyTrial, attempt: int, step: int, **dev: Any) -> dict[str, Any]:
    scores = {
        "nll": 1.5,
        "ppl": 4.5,
        "bleu": 30.0,
        "chrf": 50.0,
        "signature": "nrefs:1",
        "decode": DECODE,
    }
    return {
        **{
            "key": trial.key,
            "row": trial.row,
            "seed": trial.seed,
            "step": step,
            "attempt": attempt,
        },
        **{"params": 63_045_632, "flops": 9.52e17, "seconds": 3700.0},
        "scores": {"dev": scores | dev, "test": scores},
    }


def finish(study: Study, trial: StudyTrial, attempt: int, step: int, **dev: Any) -> None:
    folder = study.trial_folder(trial)
    folder.write_result(result(trial, attempt, step, **dev))
    folder.attempts.end(attempt, "finished")


def send(study: Study, experiment: str | None = EXPERIMENT) -> None:
    """To the default store, as `allelse sync` does."""
    options = ["--experiment", experiment] if experiment else []
    assert sync.main(["--study", str(study.folder), *options]) == 0


def opened(uri: str, experiment: str = EXPERIMENT) -> Store:
    client = MlflowClient(uri, uri)
    return client, client.get_experiment_by_name(experiment).experiment_id


def runs_of(study: Study, store: Store) -> list[Any]:
    client, experiment = store
    query = f"tags.`sweep.id` = '{study.name}' and tags.`trial.key` != ''"
    return list(client.search_runs([experiment], query))


def only_run(study: Study, store: Store) -> Any:
    (run,) = runs_of(study, store)
    return run


def history(study: Study, store: Store, metric: str = "loss") -> list[tuple[int, float]]:
    run_id = only_run(study, store).info.run_id
    points = store[0].get_metric_history(run_id, metric)
    return sorted((point.step, point.value) for point in points)
