"""A process that is killed at two random steps and resumed ends bit for bit like an undisturbed one."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from same_bits import computed, differing, state_after
from small_text import TEXT
from studies import SMALL, Running, last, lines, wait_until
from typed import typed

pytestmark = pytest.mark.slow

STEPS = 120
DROPOUT = ["model.p_drop=0.2", "model.attention_dropout=0.1", "model.relu_dropout=0.1"]
SETTINGS = [
    *SMALL,
    *TEXT,
    *DROPOUT,
    f"train.steps={STEPS}",
    "train.checkpoint_every=15",
    "decode.average_checkpoints=5",
    "decode.average_every=15",
]
WORDS = ["train", *SETTINGS, "train.log_every=1", "train.evaluate_every=40"]
PATIENCE = 600
"""Seconds until a process counts as stuck, on a busy machine."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, furnish: Callable[[Path], Path]) -> Path:
    return furnish(tmp_path_factory.mktemp("bitwise"))


@pytest.fixture(scope="module")
def places() -> list[int]:
    """The steps where the other trial is killed."""
    return sorted(random.SystemRandom().sample(range(1, STEPS - 20), 2))


@pytest.fixture(autouse=True)
def _shown(places: list[int]) -> None:
    """Printed with each failure, so that it can be repeated."""
    print(f"killed at the steps {places}")


@pytest.fixture(scope="module")
def trials(folder: Path, places: list[int]) -> tuple[Path, Path]:
    """The folders of an undisturbed trial and of one that was killed twice."""
    for attempt, step in enumerate(places, start=1):
        running = Running.start(*WORDS, "sweep.name=killed", cwd=folder, trial=folder / "runs/killed/base-s1")
        wait_for_step(running, step, attempt)
        running.kill()
    for name in ("undisturbed", "killed"):
        done = typed(folder, *last([*WORDS, f"sweep.name={name}"]))
        assert done.exit_code == 0, done.output
    return folder / "runs/undisturbed/base-s1", folder / "runs/killed/base-s1"


def wait_for_step(running: Running, step: int, attempt: int) -> None:
    """Until this attempt has reported this step."""

    def reached() -> bool:
        journal = lines(running.trial / "journal.jsonl")
        return any(line["step"] >= step and line["attempt"] == attempt for line in journal)

    wait_until(lambda: reached() or running.ended(), f"step {step}", PATIENCE)
    assert not running.ended(), running.process.communicate()[0]


def test_the_process_was_killed_twice(trials: tuple[Path, Path]) -> None:
    _, killed = trials
    reasons = [line["reason"] for line in lines(killed / "attempts.jsonl") if line.get("end")]
    assert reasons == ["lost", "lost", "finished"]


def test_weights_moments_and_position_are_the_same(trials: tuple[Path, Path]) -> None:
    expected, found = (state_after(trial, STEPS) for trial in trials)
    assert sum("exp_avg" in name for name in expected) > 20
    assert differing(found, expected) == []


def test_the_same_checkpoints_are_kept(trials: tuple[Path, Path]) -> None:
    """As many as without the killed attempts, and no other file."""
    expected, found = (sorted(path.name for path in trial.glob("checkpoints/*/a*/*")) for trial in trials)
    assert found == expected
    assert len(found) >= 5
    everything = [
        path for path in (trials[1] / "checkpoints").rglob("*") if path.is_file() and path.name != "owner.json"
    ]
    assert {path.name for path in everything} == {"tensors.safetensors", "manifest.json"}
    assert len(everything) == 2 * len(found)


def test_every_journaled_step_loss_and_score_is_the_same(trials: tuple[Path, Path]) -> None:
    expected, found = ([_of_step(line) for line in lines(trial / "journal.jsonl")] for trial in trials)
    assert [line["step"] for line in expected] == list(range(1, STEPS + 1))
    for mine, other in zip(found, expected, strict=True):
        assert mine == other


def _of_step(line: dict[str, Any]) -> dict[str, Any]:
    """Without the newest checkpoint on disk, which is written while training goes on."""
    kept: dict[str, Any] = computed({name: value for name, value in line.items() if name != "checkpoint"})
    return kept


def test_results_and_hypotheses_are_the_same(trials: tuple[Path, Path]) -> None:
    expected, found = (computed(lines(trial / "result.json")) for trial in trials)
    assert found == expected
    names = sorted(path.name for path in (trials[0] / "hypotheses").iterdir())
    assert names
    for name in names:
        texts = [(trial / "hypotheses" / name).read_bytes() for trial in trials]
        assert texts[0] == texts[1], name
