"""Plain data into dataclasses: each kind of mistake is found, and all of them at once."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import pytest
from small_trials import small_trial

from sweeps.schema import Problem, Range, parse
from transformer.config import TrialConfig


@dataclass(frozen=True)
class Inner:
    count: Annotated[int, Range(1)]
    kind: Literal["fp32", "bf16"] = "fp32"


@dataclass(frozen=True)
class Outer:
    inner: Inner
    share: Annotated[float, Range(0, 1, below=True)]
    on: bool
    name: str | None
    seeds: list[Annotated[int, Range(1, 5)]]
    files: list[str] | None = None


GOOD: dict[str, Any] = {"inner": {"count": 4}, "share": 0.5, "on": True, "name": None, "seeds": [1, 2]}


def problems(**changes: Any) -> list[Problem]:
    built, found = parse(Outer, GOOD | changes)
    assert (built is None) == bool(found)
    return found


def problem(**changes: Any) -> Problem:
    (only,) = problems(**changes)
    return only


def test_good_data_becomes_the_dataclass_with_its_defaults() -> None:
    built, found = parse(Outer, GOOD)
    assert found == []
    assert built == Outer(Inner(4, "fp32"), 0.5, True, None, [1, 2], None)


def test_a_trial_survives_conversion_to_plain_data_and_back() -> None:
    trial = small_trial()
    assert parse(TrialConfig, asdict(trial)) == (trial, [])


def test_an_unknown_nested_key_is_named_in_full() -> None:
    found = problem(inner={"count": 4, "kidn": "fp32"})
    assert (found.key, found.nearest) == ("inner.kidn", "inner.kind")


@pytest.mark.parametrize("value", [True, "4", 4.0, 4.5, None, [4], {"a": 4}], ids=repr)
def test_only_a_whole_number_is_accepted_as_one(value: object) -> None:
    found = problem(inner={"count": value})
    assert found.key == "inner.count"
    assert "must be a whole number of at least 1" in found.allowed


@pytest.mark.parametrize("value", [True, "0.5", None, float("nan"), float("inf"), 10**400, [0.5]], ids=str)
def test_only_a_finite_number_is_accepted_as_one(value: object) -> None:
    found = problem(share=value)
    assert found.key == "share"
    assert "must be a number" in found.allowed


@pytest.mark.parametrize("value", [1, 0, "true", None], ids=repr)
def test_only_true_and_false_are_accepted_as_truth_values(value: object) -> None:
    assert problem(on=value).allowed == "must be true or false"


@pytest.mark.parametrize(("value", "fits"), [(0, True), (0.999, True), (1.0, False), (-0.001, False)], ids=str)
def test_a_range_that_excludes_its_upper_bound(value: float, fits: bool) -> None:
    assert (problems(share=value) == []) == fits


def test_a_choice_outside_the_allowed_ones_is_refused_with_the_nearest() -> None:
    found = problem(inner={"count": 1, "kind": "fp23"})
    assert (found.key, found.allowed, found.nearest) == ("inner.kind", "must be one of fp32, bf16", "fp32")


def test_every_mistake_is_reported_at_once() -> None:
    tree = {"inner": {"count": "4", "kind": "fp64", "extra": 1}, "share": 2, "on": 1, "seeds": [9], "nmae": "x"}
    _, found = parse(Outer, tree)
    assert sorted(p.key for p in found) == [
        "inner.count",
        "inner.extra",
        "inner.kind",
        "name",
        "nmae",
        "on",
        "seeds",
        "share",
    ]
