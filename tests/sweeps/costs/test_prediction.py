"""Arithmetic of a prediction: what fits side by side, what ends when, and the line through what was
measured."""

from dataclasses import replace

import pytest

from sweeps.config.settings import Cluster
from sweeps.costs.calibrated_trial import Limits, Mark, Stopwatch
from sweeps.costs.measurement import Measurement
from sweeps.costs.prediction import Work, fitted_line, predict
from sweeps.costs.slots import end_times, slots_of, visible_gpus
from sweeps.processes.events import Report

CLUSTER = Cluster(address=None, workers=1, cpus_per_worker=2, gpus_per_worker=0)
MEASURED = Measurement(
    "a", "same", "here", "calibrated", 10, 0.5, flops_per_step=1e9, scoring_seconds=4.0
)
WORK = Work("a", "same", 100, 1e9)


def test_as_many_worker_groups_fit_as_cpus_and_gpus_allow() -> None:
    assert slots_of(CLUSTER, [{"CPU": 5.0}]) == 2
    assert slots_of(CLUSTER, [{"CPU": 1.0}]) == 0
    assert slots_of(replace(CLUSTER, gpus_per_worker=0.2), [{"CPU": 64.0, "GPU": 1.0}]) == 5
    assert slots_of(replace(CLUSTER, gpus_per_worker=1), [{"CPU": 64.0}]) == 0
    assert slots_of(replace(CLUSTER, workers=3), [{"CPU": 4.0}, {"CPU": 8.0}]) == 2


@pytest.mark.parametrize(
    ("visible", "gpus"), [("0,1", ["0", "1"]), ("GPU-a", ["GPU-a"]), ("", []), ("0,-1,1", ["0"])]
)
def test_gpus_before_the_first_that_is_none_are_visible(
    visible: str, gpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_gpus() == gpus


def test_trials_begin_in_their_order_as_soon_as_a_slot_is_free() -> None:
    assert end_times([3.0, 1.0, 1.0, 4.0], slots=2) == [3.0, 1.0, 2.0, 6.0]
    assert end_times([3.0, 1.0, 1.0], slots=1, start_seconds=10.0) == [13.0, 14.0, 15.0]


def test_the_line_goes_through_points_on_a_line_and_is_never_negative() -> None:
    assert fitted_line([(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]) == pytest.approx((1.0, 2.0))
    assert fitted_line([(2.0, 6.0)]) == pytest.approx((0.0, 3.0))
    base, slope = fitted_line([(1.0, 1.0), (2.0, 5.0)])
    assert (base, slope > 0) == (0.0, True)
    base, slope = fitted_line([(1.0, 5.0), (2.0, 1.0)])
    assert (slope, base > 0) == (0.0, True)


def test_the_same_row_counts_first_and_a_finished_trial_before_calibration() -> None:
    finished = replace(MEASURED, source="finished", seconds_per_step=0.7, scoring_seconds=6.0)
    other_measurement = replace(MEASURED, work="b", seconds_per_step=9.0)
    prediction = predict(WORK, [MEASURED, other_measurement])
    assert prediction is not None
    assert (prediction.seconds, prediction.source, prediction.interpolated) == (
        54.0,
        "calibrated",
        False,
    )
    prediction = predict(WORK, [MEASURED, other_measurement, finished])
    assert prediction is not None
    assert prediction.seconds == pytest.approx(76.0)
    assert prediction.source == "finished"


def test_other_conditions_tell_nothing_and_nothing_is_extrapolated() -> None:
    assert predict(replace(WORK, conditions="other"), [MEASURED]) is None
    assert predict(replace(WORK, work="c", flops_per_step=2e9), [MEASURED]) is None
    dear_measurement = replace(MEASURED, work="b", flops_per_step=4e9, seconds_per_step=2.0)
    prediction = predict(replace(WORK, work="c", flops_per_step=2e9), [MEASURED, dear_measurement])
    assert prediction is not None
    assert prediction.training_seconds == pytest.approx(100.0)
    assert prediction.interpolated


def test_without_flops_a_row_takes_the_mean_of_the_others() -> None:
    fast, slow = (
        replace(MEASURED, work=str(seconds), flops_per_step=None, seconds_per_step=seconds)
        for seconds in (1.0, 3.0)
    )
    prediction = predict(replace(WORK, flops_per_step=None), [fast, slow])
    assert prediction is not None
    assert (prediction.training_seconds, prediction.interpolated) == (200.0, True)


def test_unknown_scoring_is_left_out() -> None:
    prediction = predict(WORK, [replace(MEASURED, scoring_seconds=None)])
    assert prediction is not None
    assert (prediction.seconds, prediction.scoring_seconds) == (50.0, None)


def test_the_first_trial_of_a_process_takes_longer() -> None:
    prediction = predict(WORK, [replace(MEASURED, first_seconds=3.0)])
    assert prediction is not None
    assert prediction.as_first().seconds - prediction.seconds == 3.0


def test_without_a_number_of_steps_only_whole_trials_predict() -> None:
    work = replace(WORK, steps=None)
    finished = replace(MEASURED, source="finished", steps=50, seconds_per_step=0.4)
    assert predict(work, [MEASURED]) is None
    prediction = predict(work, [MEASURED, finished])
    assert prediction is not None
    assert (prediction.training_seconds, prediction.interpolated) == (20.0, False)
    other_row = predict(replace(work, work="b"), [finished])
    assert other_row is not None
    assert (other_row.training_seconds, other_row.interpolated) == (20.0, True)


@pytest.mark.parametrize(
    "measured",
    [replace(MEASURED, flops_per_step=0.0), replace(MEASURED, seconds_per_step=0.0)],
)
def test_a_row_without_flops_or_time_is_no_point_of_a_line(measured: Measurement) -> None:
    prediction = predict(replace(WORK, work="c"), [measured, replace(MEASURED, work="b")])
    assert prediction is not None
    assert prediction.training_seconds == pytest.approx(50 * measured.seconds_per_step + 25)


def test_work_without_steps_predicts_as_a_whole() -> None:
    whole = replace(MEASURED, steps=0, seconds_per_step=7.0)
    prediction = predict(WORK, [whole])
    assert prediction is not None
    assert prediction.training_seconds == 7.0
    prediction = predict(WORK, [whole, MEASURED])
    assert prediction is not None
    assert prediction.training_seconds == 50.0, "it reports steps by now"


def watched(moments: dict[str, Mark]) -> dict[str, float]:
    """What a stopwatch answers after marks at these moments; it starts at 0."""
    watch = Stopwatch(Limits())
    watch.start = Mark(0, 0.0)
    for name, mark in moments.items():
        setattr(watch, name, mark)
    answer = watch.answer()
    return {"steps": answer["steps"], "per_step": answer["seconds_per_step"]}


def test_the_step_at_which_a_stop_was_obeyed_ends_what_is_measured() -> None:
    """Each step takes a quarter of a second; a stop is asked for after step 80."""
    first, last, stopped = Mark(1, 0.25), Mark(60, 15.0), Mark(0, 20.0)
    before_stop = {"first": first, "last": last, "stopped": stopped}
    assert watched(before_stop) == {"steps": 60, "per_step": 0.25}
    assert watched(before_stop | {"saved": Mark(80, 29.0)}) == {"steps": 80, "per_step": 0.25}
    assert watched(before_stop | {"last": Mark(80, 25.0)}) == {"steps": 80, "per_step": 0.25}
    without_report = {"first": first, "stopped": stopped, "saved": Mark(80, 29.0)}
    assert watched(without_report) == {"steps": 80, "per_step": 0.25}


def test_a_command_s_step_ends_when_it_is_reported() -> None:
    watch = Stopwatch(Limits())
    watch.checks_each_step = False
    watch.start, watch.first = Mark(0, 0.0), Mark(10, 10.0)
    watch.stopped, watch.last = Mark(0, 24.0), Mark(30, 30.0)
    assert watch.answer()["seconds_per_step"] == 1.0


def test_work_that_reports_nothing_is_measured_as_a_whole_or_not_at_all() -> None:
    assert watched({"finished": Mark(0, 12.0)}) == {"steps": 0, "per_step": 12.0}
    with pytest.raises(LookupError, match="neither reported nor saved a step within 90 s"):
        watched({"first": Mark(1, 0.5)})


def test_checks_by_the_clock_are_no_steps() -> None:
    watch = Stopwatch(Limits(least_seconds=0.0, least_steps=3))
    watch.checks_each_step = False
    assert [watch.stop() for _ in range(9)] == [False] * 9
    watch.handle(Report(3, {}, ts=0.0))
    assert watch.first == watch.last
    assert watch.stop()
