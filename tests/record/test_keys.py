"""Keys that only observe change no score; keys that decide what is trained change the trial's key.
Found by listing."""

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from place import Place

from sweeps.config.schema import Schema
from sweeps.config.tasks import load_task
from sweeps.planning.continuation import plan_sweep
from sweeps.verbs.setup import TEMPLATE

TASKS = {
    "translation": [
        "task=translation",
        "scale=tiny",
        "data=synthetic",
        "train.steps=20",
        "train.warmup_steps=5",
        "train.precision=fp32",
    ],
    "starter": ["task=starter", "steps=60"],
}
ROW = {"translation": "d_dropout_0", "starter": "base"}
"""Without dropout: how a batch is split decides what dropout draws."""
OTHER = {
    "name": "multi30k",
    "tokens_per_micro_batch": 500,
    "log_every": 7,
    "evaluate_every": 9,
    "checkpoint_every": 6,
    "score_every": 10,
}
"""Where another value cannot be guessed."""


def folder_of(task: str, folder: Path) -> Path:
    """A folder in which the task is known."""
    if task == "starter":
        (folder / "starter.py").write_text((TEMPLATE / "starter.py").read_text())
        (folder / "conf").symlink_to(TEMPLATE / "conf")
    return folder


def other(name: str, value: Any) -> Any:
    """Another value of the key, valid or not: a key does not depend on that."""
    if name in OTHER:
        return OTHER[name]
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x"


def with_other(config: Any, key: str) -> Any:
    group, _, name = key.partition(".")
    values = getattr(config, group)
    return replace(config, **{group: replace(values, **{name: other(name, getattr(values, name))})})


@pytest.mark.parametrize("task", TASKS)
def test_the_keys_that_decide_and_no_others_change_the_trials_key(
    task: str, tmp_path: Path
) -> None:
    folder = folder_of(task, tmp_path)
    config = plan_sweep([*TASKS[task], f"sweep.rows=[{ROW[task]}]"], here=folder).trials[0].config
    loaded = load_task(task, folder)
    schema = Schema.of(loaded)

    def key(config: Any) -> str:
        return schema.trial_key(config, 1, loaded.fingerprint(config))

    names = [
        f"{group.name}.{field.name}"
        for group in fields(config)
        for field in fields(getattr(config, group.name))
    ]
    deciding = [name for name in names if schema.decides_weights(name)]
    silent = [name for name in names if name in {*schema.observes, *schema.scores}]
    assert len(deciding) >= 4
    assert silent
    assert [name for name in deciding if key(with_other(config, name)) == key(config)] == []
    assert [name for name in silent if key(with_other(config, name)) != key(config)] == []


def numbers(scores: dict[str, dict[str, Any]]) -> dict[str, float]:
    flat = {
        f"{set_name}/{name}": value
        for set_name, values in scores.items()
        for name, value in values.items()
    }
    return {name: value for name, value in flat.items() if isinstance(value, int | float)}


@pytest.mark.slow
def test_all_observing_keys_at_once_change_no_score(place: Place) -> None:
    task = TASKS["translation"]
    row = ROW["translation"]
    shutil.rmtree(place.folder / "conf")
    schema = Schema.of(load_task("translation", place.folder))
    config = plan_sweep([*task, f"sweep.rows=[{row}]"], here=place.folder).trials[0].config
    changed = [
        f"{key}={other(key.partition('.')[2], schema.values(config)[key])}"
        for key in sorted(schema.observes)
    ]
    assert changed
    scores = []
    for name, words in {"usual": [], "changed": changed}.items():
        place.must("train", *task, *words, f"row={row}", f"sweep.name={name}")
        result = place.study.with_name(name) / f"{row}-s1" / "result.json"
        scores.append(json.loads(result.read_text())["scores"])
    plain, flipped = map(numbers, scores)
    assert plain == pytest.approx(flipped, rel=1e-4), (
        "another split of a batch changes rounding alone, without dropout"
    )
