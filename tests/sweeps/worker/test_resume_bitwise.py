"""A process that is killed at two random steps and resumed ends bit for bit like an undisturbed
one."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faulty_task import reasons
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
WORDS = ["train", *SETTINGS, "train.log_every=1", "train.evaluate_every=40", "tracking=off"]


@pytest.fixture(scope="module")
def trials(
    tmp_path_factory: pytest.TempPathFactory, furnish: Callable[[Path], Path]
) -> tuple[Path, Path]:
    """The folders of an undisturbed trial and of one that was killed twice."""
    folder = furnish(tmp_path_factory.mktemp("bitwise"))
    undisturbed, killed = (folder / "runs" / name / "base-s1" for name in ("undisturbed", "killed"))
    for attempt, step in enumerate(
        sorted(random.SystemRandom().sample(range(1, STEPS - 20), 2)), start=1
    ):
        print(f"killed at step {step}")  # so that a failure can be repeated
        running = Running.start(*WORDS, "sweep.name=killed", cwd=folder, trial=killed)
        wait_for_step(running, step, attempt)
        running.kill()
    for name in ("undisturbed", "killed"):
        outcome = typed(folder, *last([*WORDS, f"sweep.name={name}"]))
        assert outcome.exit_code == 0, outcome.output
    return undisturbed, killed


def wait_for_step(running: Running, step: int, attempt: int) -> None:
    """Until this attempt has reported this step."""

    def reached() -> bool:
        journal = lines(running.trial / "journal.jsonl")
        return any(line["step"] >= step and line["attempt"] == attempt for line in journal)

    wait_until(lambda: reached() or running.ended(), f"step {step}")
    assert not running.ended(), running.process.communicate()[0]


def test_weights_moments_and_position_are_the_same(trials: tuple[Path, Path]) -> None:
    expected, resumed = (state_after(trial, STEPS) for trial in trials)
    assert sum("exp_avg" in name for name in expected) > 20
    assert differing(resumed, expected) == []


def test_the_same_checkpoints_are_kept_and_no_other_file(trials: tuple[Path, Path]) -> None:
    expected, resumed = map(_checkpoint_names, trials)
    assert resumed == expected
    assert len(resumed) >= 5
    files = [path.name for path in (trials[1] / "checkpoints").rglob("*") if path.is_file()]
    assert sorted(files) == sorted(
        [*["tensors.safetensors", "manifest.json"] * len(resumed), "owner.json"]
    )


def test_every_journaled_step_loss_score_and_text_is_the_same(trials: tuple[Path, Path]) -> None:
    assert reasons(trials[1]) == ["lost", "lost", "finished"]
    expected, resumed = map(_journaled, trials)
    assert [line["step"] for line in expected] == list(range(1, STEPS + 1))
    assert resumed == expected
    results, texts = zip(
        *((computed(lines(trial / "result.json")), _texts(trial)) for trial in trials), strict=True
    )
    assert results[0] == results[1]
    assert texts[0] == texts[1] != {}


def _checkpoint_names(trial: Path) -> list[str]:
    return sorted(path.name for path in trial.glob("checkpoints/*/a*/*"))


def _journaled(trial: Path) -> list[dict[str, Any]]:
    return [_of_step(line) for line in lines(trial / "journal.jsonl")]


def _of_step(line: dict[str, Any]) -> dict[str, Any]:
    """Without the newest checkpoint on disk, which is written while training goes on."""
    fields: dict[str, Any] = computed(
        {name: value for name, value in line.items() if name != "checkpoint"}
    )
    return fields


def _texts(trial: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (trial / "hypotheses").iterdir()}
