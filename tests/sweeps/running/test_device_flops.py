"""The FLOPs of the devices that trained, from the records of their attempts."""

from typing import Any

import pytest

from sweeps.running.recording.trial_result import device_costs

TYPED = {"flops_per_s": 2e12, "source": "typed"}
MEASURED = {"flops_per_s": 3e12, "source": "measured", "precision": "fp32", "threads": 1}
SECONDS = 10.0
FLOPS = 5e12


def record(**fields: Any) -> dict[str, Any]:
    """The record of an attempt that trained on one GPU of a typed rate, with these fields."""
    return {
        "attempt": 1,
        "device": "NVIDIA H100",
        "gpus_per_worker": 1.0,
        "sustained": TYPED,
    } | fields


@pytest.mark.parametrize(
    ("device", "gpus", "devices"),
    [("NVIDIA H100", 1.0, 1), ("NVIDIA H100 × 4", 2.0, 8), ("cpu (x86_64) × 2", 0.0, 2)],
)
def test_all_devices_of_all_workers_count(device: str, gpus: float, devices: int) -> None:
    costs = device_costs([record(device=device, gpus_per_worker=gpus)], SECONDS, FLOPS)
    assert costs["device_flops"] == SECONDS * devices * 2e12
    assert costs["mfu"] == FLOPS / costs["device_flops"]
    assert costs["sustained"] == TYPED


@pytest.mark.parametrize(
    ("sustained", "about", "rate"),
    [
        (TYPED, {"flops_per_s": {"sustained": 8e12}}, TYPED),
        (MEASURED, {"flops_per_s": {"sustained": 8e12}}, {"flops_per_s": 4e12, "source": "table"}),
        (None, {"flops_per_s": {"sustained": 8e12}}, {"flops_per_s": 4e12, "source": "table"}),
        (MEASURED, {"flops_per_s": {"peak": 9e12}}, MEASURED),
        (MEASURED, {"flops_per_s": 9e12}, MEASURED),
        (MEASURED, {}, MEASURED),
    ],
)
def test_a_typed_rate_counts_before_the_task_s_and_that_before_a_measured_one(
    sustained: dict[str, Any] | None, about: dict[str, Any], rate: dict[str, Any]
) -> None:
    """The task states the rate of all its devices together."""
    trained = record(device="NVIDIA H100 × 2", sustained=sustained, about=about)
    assert device_costs([trained], SECONDS, FLOPS)["sustained"] == rate


@pytest.mark.parametrize(
    "records",
    [
        [],
        [record(sustained=None)],
        [record(gpus_per_worker=0.5)],
        [record(), record(device="NVIDIA H100 × 2")],
        [record(), record(gpus_per_worker=2.0)],
        [record(), record(sustained=MEASURED)],
        [record(cpu={"model": "AMD EPYC"}), record(cpu={"model": "Intel Xeon"})],
    ],
)
def test_devices_that_differ_or_are_unknown_have_no_flops(records: list[dict[str, Any]]) -> None:
    assert device_costs(records, SECONDS, FLOPS) == {}


def test_training_without_time_or_flops_has_no_share_of_them() -> None:
    assert device_costs([record()], 0.0, FLOPS) == {}
    assert device_costs([record()], SECONDS, None).keys() == {"device_flops", "sustained"}
