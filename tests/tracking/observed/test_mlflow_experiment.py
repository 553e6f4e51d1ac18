"""Runs that a training script logged to MLflow, with curves: read through MLflow's client."""

import json
import math
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param, RunTag
from studies_on_disk import Store
from typed import printed, refused_for

from allelse import load
from tracking.uri import default_uri

EXPERIMENT = "captions"
CURVES = {"base": (20.1, 24.3, 26.2), "0.01": (21.2, 27.9, 25.3), "1.0": (19.3, 22.4, 23.5)}
"""Of each learning rate, bleu after 100, 200 and 300 steps; each seed adds a bit."""
WORDS = ("--base", "lr=0.1", "--metric", "bleu:up:test")


def log(client: Any, experiment: str, lr: str, seed: int, values: list[float]) -> str:
    """A finished run with this curve; the last value is logged at the last step, too."""
    run: str = client.create_run(experiment, start_time=1_790_000_000_000 + seed).info.run_id
    steps = [100 * min(index, 3) for index in range(1, len(values) + 1)]
    points = zip(steps, values, strict=True)
    metrics = [
        Metric("bleu", value, 1_790_000_100_000 + 1000 * index, step)
        for index, (step, value) in enumerate(points)
    ]
    params = [Param("lr", lr), Param("seed", str(seed)), Param("optimizer.name", "adam")]
    tags = [RunTag("mlflow.runName", f"lr{lr}-s{seed}"), RunTag("mlflow.note.content", "hello")]
    client.log_batch(run, metrics, params, tags)
    client.set_terminated(run, "FINISHED", end_time=1_790_000_160_000 + seed)
    return run


def test_params_are_settings_and_an_infinite_score_is_one(
    runs: Path, store: Store, tmp_path: Path
) -> None:
    """Whatever the params are called; MLflow's database keeps infinity as the largest float."""
    client, _ = store
    experiment = client.create_experiment("agents")
    for agent, scores in {"dqn": (1.0, 1.5), "ppo": (2.0, math.inf)}.items():
        for seed, score in enumerate(scores, 1):
            run = client.create_run(experiment).info.run_id
            params = [Param("agent", agent), Param("duration", "10"), Param("seed", str(seed))]
            client.log_batch(run, [Metric("reward", score, 1_790_000_000_000, 5)], params)
            client.set_terminated(run, "FINISHED")
    words = ("--experiment", "agents", "--base", "agent=dqn", "--metric", "reward:up")
    answer = json.loads(
        printed(tmp_path, "import", f"mlflow:{default_uri(runs)}", *words, "--json")
    )
    assert {row["change"]: row["seeds"] for row in answer["rows"]} == {
        "base": [1, 2],
        "agent ppo": [1, 2],
    }
    lines = json.loads(printed(tmp_path, "table", "--format", "json"))
    assert [line["reward"] for line in lines] == [1.25, 2.0]
    assert "1 of 2 diverged" in lines[1]["note"]


def test_an_experiment_is_read_with_curves_and_best_values_are_no_last_ones(
    runs: Path, store: Store, tmp_path: Path
) -> None:
    client, _ = store
    experiment = client.create_experiment(EXPERIMENT)
    for name, curve in CURVES.items():
        for seed in (1, 2, 3):
            values = [value + seed / 10 for value in curve]
            scored = [*values, max(values)] if name == "0.01" else values
            log(client, experiment, "0.1" if name == "base" else name, seed, scored)
    source = f"mlflow:{default_uri(runs)}"
    refused_for(
        tmp_path,
        ['--experiment names "caption" … did you mean captions'],
        *("import", source, "--experiment", "caption", *WORDS),
    )
    words = ("import", source, "--experiment", EXPERIMENT, *WORDS)
    answer = json.loads(printed(tmp_path, *words, "--json"))
    assert [row["change"] for row in answer["rows"]] == ["base", "lr 0.01", "lr 1"]
    (doubt,) = answer["doubts"]
    assert doubt["kind"] == "best-and-last"
    assert doubt["runs"] == ["lr0.01-s1", "lr0.01-s2", "lr0.01-s3"]
    frames = load(tmp_path / "runs" / EXPERIMENT)
    assert list(frames.scores["value"][:3]) == [26.2 + 0.1, 26.2 + 0.2, 26.2 + 0.3]
    first_curve = frames.curves[frames.curves["trial"] == "base-s1"]
    assert list(first_curve["step"]) == [100, 200, 300]
    assert set(first_curve["metric"]) == {"test/bleu"}
    assert list(frames.trials["seconds"]) == [160.0] * 9
