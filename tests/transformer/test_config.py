"""Plain data into the schema, and the steps of an average."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from small_trials import DECODE, SMALL, small_trial

from sweeps.fields import parse
from sweeps.problems import Problem
from transformer.config import TrialConfig

WHOLE = "must be a whole number"
NUMBER = "must be a number"
NOT_ALLOWED: list[tuple[str, tuple[Any, ...], str]] = [
    ("train.steps", (True, "4", 4.0, 4.5, None, [4], {"a": 4}, 0), WHOLE),
    ("model.p_drop", (True, "0.5", None, float("nan"), float("inf"), 10**400, [0.5]), NUMBER),
    ("model.p_drop", (1.0, -0.001), NUMBER),
    ("model.attention_bias", (1, 0, "true", None), "must be true or false"),
    ("train.precision", ("fp23",), "must be one of fp32, bf16"),
    ("data.train", ([9], "a"), ""),
    ("train.kind", ("fp32",), ""),
]


def parsed(**changes: Any) -> tuple[TrialConfig | None, list[Problem]]:
    """A good configuration after these changes, by key with its dot as two underscores."""
    tree: dict[str, Any] = asdict(small_trial())
    for key, value in changes.items():
        group, _, name = key.partition("__")
        tree[group][name] = value
    return parse(TrialConfig, tree)


@pytest.mark.parametrize(("key", "values", "allowed"), NOT_ALLOWED, ids=str)
def test_each_kind_of_mistake_is_found_by_its_key(
    key: str, values: tuple[Any, ...], allowed: str
) -> None:
    for value in values:
        built, (problem,) = parsed(**{key.replace(".", "__"): value})
        assert (built, problem.key) == (None, key)
        assert allowed in problem.allowed
        assert problem.suggestion == {"fp23": "fp32", "a": "[a]"}.get(
            value if isinstance(value, str) else ""
        )


def test_a_batch_must_hold_the_longest_pair_that_training_takes() -> None:
    assert list(small_trial(tokens_per_batch=20, longest=20).problems()) == []
    allowed = "or the longest pair fits in no batch."
    for longest, limit in ((20, "train.longest (20)"), (None, "model.max_positions (40)")):
        (problem,) = small_trial(tokens_per_batch=19, longest=longest).problems()
        assert str(problem) == f"train.tokens_per_batch: is 19; must be at least {limit}, {allowed}"


def test_good_data_becomes_the_dataclass() -> None:
    assert parsed(model__p_drop=0) == (small_trial(model=replace(SMALL, p_drop=0.0)), [])


@pytest.mark.parametrize(
    ("n", "every", "fits"), [(3, 200, True), (3, 201, False), (1, 601, True), (600, 1, True)]
)
def test_the_steps_of_an_average_must_lie_within_training(n: int, every: int, fits: bool) -> None:
    trial = small_trial(
        decode=replace(DECODE, average_checkpoints=n, average_every=every), steps=600
    )
    allowed = "must be at most 2: decode.average_every is 201, train.steps 600"
    assert list(map(str, trial.problems())) == (
        [] if fits else [f"decode.average_checkpoints: is 3; {allowed}."]
    )
    assert not fits or (len(trial.averaged_steps), trial.averaged_steps[-1]) == (n, 600)
