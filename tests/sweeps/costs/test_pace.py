"""Hours and memory of rows that take longer than others of as many FLOPs, such as additive
scores."""

from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.costs.calibration import trials_to_measure
from sweeps.costs.estimate import work_to_predict
from sweeps.costs.measurement import Measurement
from sweeps.costs.prediction import predict
from sweeps.planning.continuation import plan_sweep
from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial
from transformer.data.corpora import corpus

CONDITIONS_OF_BASE = "226c4df6a026611e"
"""Of base at tiny, as trials of earlier versions recorded it."""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    here: Path = tmp_path_factory.mktemp("scores")
    return plan_sweep(["sweep=scores", "scale=tiny", "data=synthetic"], here=here)


@pytest.fixture(scope="module")
def rows(plan: Plan) -> dict[str, PlannedTrial]:
    return {planned.trial.row: planned for planned in plan.trials}


def measured(planned: PlannedTrial, seconds_per_step: float) -> Measurement:
    """A trial of the row, finished on this machine."""
    work = work_to_predict(planned)
    return Measurement(
        work.work,
        work.conditions,
        "here",
        "finished",
        planned.steps,
        seconds_per_step,
        flops_per_step=work.flops_per_step,
    )


def test_hours_of_additive_scores_come_from_additive_scores_alone(
    rows: dict[str, PlannedTrial],
) -> None:
    products = [measured(rows["d_k_16"], 0.02), measured(rows["d_k_256"], 0.04)]
    additive = work_to_predict(rows["attention_score_additive"])
    assert additive.steps is not None
    dot = predict(work_to_predict(rows["attention_score_dot"]), products)
    assert dot is not None
    assert 0.02 < dot.training_seconds / additive.steps < 0.04
    assert predict(additive, products) is None, "its time is unknown"
    sums = [
        measured(rows["d_k_16-attention_score_additive"], 0.05),
        measured(rows["d_k_256-attention_score_additive"], 0.29),
    ]
    prediction = predict(additive, [*products, *sums])
    assert prediction is not None
    assert 0.05 < prediction.training_seconds / additive.steps < 0.29


def test_trials_of_earlier_versions_keep_their_conditions(rows: dict[str, PlannedTrial]) -> None:
    base = rows["base"]
    cluster = replace(base.settings.cluster, workers=1, cpus_per_worker=1, gpus_per_worker=0.0)
    planned = replace(base, settings=replace(base.settings, cluster=cluster))
    assert work_to_predict(planned).conditions == CONDITIONS_OF_BASE


def test_calibration_measures_rows_of_every_pace(plan: Plan) -> None:
    chosen = {planned.trial.row for planned in trials_to_measure(plan.trials)}
    assert {"base", "d_k_16", "d_k_256-attention_score_dot"} <= chosen, "the dearest of two alike"
    additive = {row for row in chosen if row.endswith("additive")}
    assert len(chosen) == 6
    assert len(additive) == 3


def extra_bytes(planned: PlannedTrial, tokens: int) -> float:
    """What additive scores need beyond scaled ones, with micro-batches of so many tokens."""
    config = planned.config
    train = replace(config.train, tokens_per_batch=8 * tokens, tokens_per_micro_batch=tokens)
    sizes = list[float]()
    for score in ("additive", "scaled"):
        model = replace(config.model, attention_score=score)
        size = planned.task.memory(replace(config, model=model, train=train), "cpu")
        assert size is not None
        sizes.append(size)
    return sizes[0] - sizes[1]


def test_memory_of_additive_scores_has_their_sums_up_to_a_slice(
    rows: dict[str, PlannedTrial],
) -> None:
    """Beside the weights, which each of three attentions per layer keeps for its gradient."""
    narrow = rows["d_k_16-attention_score_additive"]
    wide = rows["d_k_256-attention_score_additive"]
    model = narrow.config.model
    weights = 4 * model.n_heads * max(corpus(narrow.config.data).mean_lengths)
    vectors = model.n_heads * (wide.config.model.d_k - model.d_k) * 3 * model.n_layers * 16
    sums = weights * (wide.config.model.d_k - model.d_k)
    assert extra_bytes(wide, 2_000) - extra_bytes(narrow, 2_000) == pytest.approx(
        2_000 * sums + vectors
    )
    kept = 3 * model.n_layers * weights * 1_000_000
    parameters = 16 * 3 * model.n_layers * model.n_heads * model.d_k
    assert extra_bytes(narrow, 1_000_000) == pytest.approx(kept + 64 * 2**20 + parameters)
