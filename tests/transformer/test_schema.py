"""Plain data into dataclasses: each kind of mistake is found, and all of them at once."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import pytest
from small_trials import small_trial

from transformer.config import TrialConfig
from transformer.schema import Problem, Range, RefusedError, keys, nearest, parse


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


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    found = problem(sahre=0.5)
    assert (found.key, found.nearest) == ("sahre", "share")
    assert "inner, share, on, name, seeds, files" in found.allowed


def test_an_unknown_nested_key_is_named_in_full() -> None:
    found = problem(inner={"count": 4, "kidn": "fp32"})
    assert (found.key, found.nearest) == ("inner.kidn", "inner.kind")


def test_an_unknown_key_like_no_other_has_no_nearest() -> None:
    assert problem(zzzzzz=1).nearest is None


def test_a_missing_key_is_refused() -> None:
    _, found = parse(Outer, {key: value for key, value in GOOD.items() if key != "share"})
    assert [(p.key, p.found) for p in found] == [("share", "is missing")]


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


@pytest.mark.parametrize("value", [1, True, ["a"]], ids=repr)
def test_an_optional_string_is_a_string_or_null(value: object) -> None:
    assert problem(name=value).allowed == "must be a string or null"


def test_a_whole_number_is_accepted_as_a_number() -> None:
    built, _ = parse(Outer, GOOD | {"share": 0})
    assert built is not None
    assert isinstance(built.share, float)


@pytest.mark.parametrize(("value", "fits"), [(0, True), (0.999, True), (1.0, False), (-0.001, False)], ids=str)
def test_a_range_that_excludes_its_upper_bound(value: float, fits: bool) -> None:
    assert (problems(share=value) == []) == fits


@pytest.mark.parametrize(("value", "fits"), [(1, True), (10**9, True), (0, False), (-1, False)], ids=str)
def test_a_range_without_an_upper_bound(value: int, fits: bool) -> None:
    assert (problems(inner={"count": value}) == []) == fits


@pytest.mark.parametrize(
    ("value", "fits"),
    [([1, 5], True), ([], True), ((2,), True), ([6], False), ([1, 0], False), ([True], False), (3, False)],
    ids=str,
)
def test_a_range_holds_for_each_item_of_a_list(value: object, fits: bool) -> None:
    assert (problems(seeds=value) == []) == fits


def test_a_choice_outside_the_allowed_ones_is_refused_with_the_nearest() -> None:
    found = problem(inner={"count": 1, "kind": "fp23"})
    assert (found.key, found.allowed, found.nearest) == ("inner.kind", "must be one of fp32, bf16", "fp32")


@pytest.mark.parametrize("value", [True, None, 1, ["fp32"]], ids=repr)
def test_a_choice_of_another_type_is_refused(value: object) -> None:
    assert problem(inner={"count": 1, "kind": value}).key == "inner.kind"


@pytest.mark.parametrize("value", [None, 3, "inner", [1]], ids=repr)
def test_a_value_in_place_of_a_group_is_refused(value: object) -> None:
    assert problem(inner=value).allowed == "must be a group of keys"


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


def test_a_refusal_lists_every_problem_with_place_and_hint() -> None:
    error = RefusedError(
        [Problem("a.b", "is 1", "must be 2", "a.c", "conf/x.yaml:3"), Problem("d", "is 4", "must be 5")]
    )
    assert str(error) == "a.b (conf/x.yaml:3): is 1; must be 2. Did you mean a.c?\nd: is 4; must be 5."
    assert len(error.problems) == 2


def test_keys_lists_every_leaf() -> None:
    assert keys(Outer) == ["inner.count", "inner.kind", "share", "on", "name", "seeds", "files"]


def test_nearest_finds_a_transposed_name_only() -> None:
    assert nearest("d_mdoel", ["d_model", "d_ff"]) == "d_model"
    assert nearest("unlike", ["d_model", "d_ff"]) is None
