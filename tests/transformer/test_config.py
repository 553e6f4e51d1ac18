"""Plain data into the schema: every mistake at once; conflicts between keys; unknown variants fail."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, cast

import pytest
import torch
from small_trials import SMALL, SYNTHETIC, small_trial

from sweeps.schema import Problem, Range, parse
from transformer.config import TrialConfig
from transformer.cost import parameters
from transformer.model.encoder_decoder import Positions, Transformer
from transformer.training.precision import autocast


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


@pytest.mark.parametrize(
    ("model", "train", "key"),
    [
        ({"d_model": 15}, {}, "model.d_model"),
        ({}, {"tokens_per_batch": 39}, "train.tokens_per_batch"),
        ({}, {"label_smoothing": 0.9995}, "train.label_smoothing"),
    ],
)
def test_keys_that_contradict_each_other_are_found(model: Any, train: Any, key: str) -> None:
    assert small_trial().problems() == []
    assert [p.key for p in small_trial(model=replace(SMALL, **model), **train).problems()] == [key]


def test_an_odd_width_is_fine_with_learned_positions() -> None:
    assert small_trial(model=replace(SMALL, d_model=15, positions="learned")).problems() == []


def test_only_the_files_corpus_accepts_files() -> None:
    with_files = small_trial(data=replace(SYNTHETIC, train=["a", "b"]))
    without = small_trial(data=replace(SYNTHETIC, name="files", dev=["a"], test=["a", "b"]))
    assert [p.key for p in with_files.problems()] == ["data.train"]
    assert [p.key for p in without.problems()] == ["data.train", "data.dev"]


ROTARY = replace(SMALL, positions=cast(Any, "rotary"))
UNKNOWN: dict[str, Callable[[], object]] = {
    "positions": lambda: Positions(ROTARY),
    "a model's positions": lambda: Transformer(ROTARY, 30),
    "parameters of positions": lambda: parameters(ROTARY, 30),
    "precision": lambda: autocast(cast(Any, "fp8"), torch.device("cpu")),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_variant_fails(name: str) -> None:
    with pytest.raises(AssertionError, match="unreachable"):
        UNKNOWN[name]()
