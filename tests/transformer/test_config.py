"""Plain data into the schema: every mistake at once; conflicts between keys."""

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

import pytest
from small_trials import DECODE, SMALL, SYNTHETIC, small_trial

from sweeps.schema import Range, parse
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


WHOLE, NUMBER = "must be a whole number of at least 1", "must be a number"
FAULTY: list[tuple[dict[str, Any], str, str]] = [
    *(({"inner": {"count": value}}, "inner.count", WHOLE) for value in (True, "4", 4.0, 4.5, None, [4], {"a": 4}, 0)),
    *(({"share": value}, "share", NUMBER) for value in (True, "0.5", None, float("nan"), float("inf"), 10**400, [0.5])),
    *(({"share": value}, "share", NUMBER) for value in (1.0, -0.001)),
    *(({"on": value}, "on", "must be true or false") for value in (1, 0, "true", None)),
    ({"inner": {"count": 1, "kind": "fp23"}}, "inner.kind", "must be one of fp32, bf16"),
    ({"inner": {"count": 4, "kidn": "fp32"}}, "inner.kidn", ""),
    ({"seeds": [9]}, "seeds", ""),
]


@pytest.mark.parametrize(("changes", "key", "allowed"), FAULTY, ids=str)
def test_each_kind_of_mistake_is_found_by_its_key(changes: dict[str, Any], key: str, allowed: str) -> None:
    built, (found,) = parse(Outer, GOOD | changes)
    assert built is None
    assert found.key == key
    assert allowed in found.allowed
    assert found.nearest == {"inner.kidn": "inner.kind", "inner.kind": "fp32"}.get(key)


def test_good_data_becomes_the_dataclass_with_its_defaults() -> None:
    assert parse(Outer, GOOD | {"share": 0}) == (Outer(Inner(4, "fp32"), 0.0, True, None, [1, 2], None), [])
    trial = small_trial()
    assert parse(TrialConfig, asdict(trial)) == (trial, [])


def test_every_mistake_is_reported_at_once() -> None:
    tree = {"inner": {"count": "4", "kind": "fp64", "extra": 1}, "share": 2, "on": 1, "seeds": [9], "nmae": "x"}
    _, found = parse(Outer, tree)
    inner = ["inner.count", "inner.extra", "inner.kind"]
    assert sorted(problem.key for problem in found) == [*inner, "name", "nmae", "on", "seeds", "share"]


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


@pytest.mark.parametrize(("n", "every", "fits"), [(3, 200, True), (3, 201, False), (1, 601, True), (600, 1, True)])
def test_the_steps_of_an_average_must_lie_within_training(n: int, every: int, fits: bool) -> None:
    trial = small_trial(decode=replace(DECODE, average_checkpoints=n, average_every=every), steps=600)
    allowed = "times decode.average_every (201), it must be at most train.steps (600)"
    assert list(map(str, trial.problems())) == ([] if fits else [f"decode.average_checkpoints: is 3; {allowed}."])
    assert not fits or (len(trial.averaged_steps), trial.averaged_steps[-1]) == (n, 600)


def test_only_the_files_corpus_accepts_files() -> None:
    with_files = small_trial(data=replace(SYNTHETIC, train=["a", "b"]))
    without = small_trial(data=replace(SYNTHETIC, name="files", dev=["a"], test=["a", "b"]))
    assert [p.key for p in with_files.problems()] == ["data.train"]
    assert [p.key for p in without.problems()] == ["data.train", "data.dev"]
