"""The tasks for Trainer and Lightning in `examples/frameworks`: stopped and resumed, they end with the same
weights."""

import json
import re
from pathlib import Path

import pytest
import torch
from faulty_task import reasons, undisturbed
from studies import lines
from typed import typed
from written_files import GUIDE, write_files

from examples import EXAMPLES, copied

STOPPED = """
import os, signal
from dataclasses import replace
from pathlib import Path

import {module}

PRESS = Path("{press}")


class Stopped:
    # a person presses Ctrl-C at this step, once
    def __init__(self, trial):
        self.trial, self.step = trial, trial.saved.step if trial.saved else 0

    def __getattr__(self, name):
        return getattr(self.trial, name)

    def stopping(self):
        self.step += 1
        if self.step == {step} and PRESS.exists():
            PRESS.unlink()
            os.kill(os.getpid(), signal.SIGINT)
        return self.trial.stopping()


task = replace({module}.task, work=lambda trial: {module}.work(Stopped(trial)))
"""
CALLBACK = re.compile(r"^class Sweep\(.*?(?=^\S)", re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "every", "steps", "weights"),
    [("bert", 10, 60, "model.safetensors"), ("spiral_module", 50, 400, "last.ckpt")],
)
def test_a_framework_is_stopped_and_resumed(
    workplace: Path,
    tmp_path_factory: pytest.TempPathFactory,
    module: str,
    every: int,
    steps: int,
    weights: str,
) -> None:
    write_tasks(workplace)
    (workplace / "stopped.py").write_text(
        STOPPED.format(module=module, step=2 * every + 5, press=workplace / "press")
    )
    (workplace / "press").touch()
    words, trial = ["task=stopped", "sweep.name=s"], workplace / "runs" / "s" / "base-s1"
    first = typed(workplace, "train", *words)
    assert first.exit_code == 130, first.output
    again = typed(workplace, "train", *words)
    assert again.exit_code == 0, again.output

    assert reasons(trial) == ["interrupted", "finished"]
    reported = [line["step"] for line in lines(trial / "journal.jsonl")]
    assert reported == sorted({2 * every + 5, *range(every, steps + 1, every)})
    assert f"resumed at step {2 * every + 5}" in again.output

    alone = tmp_path_factory.mktemp("alone")
    whole = undisturbed(workplace, words, "base", alone)
    assert json.loads((trial / "result.json").read_text())["scores"] == whole.scores
    assert same(newest(trial / "checkpoints", weights), newest(alone, weights))


@pytest.mark.parametrize("module", ["bert", "spiral_module"])
def test_a_callback_is_short(module: str) -> None:
    (callback,) = CALLBACK.findall((EXAMPLES / "frameworks" / f"{module}.py").read_text("utf-8"))
    assert len([line for line in callback.splitlines() if line]) <= 12, callback


def write_tasks(folder: Path) -> None:
    """Both tasks, next to the spirals of the guide that one of them imports."""
    write_files(GUIDE, folder)
    copied("frameworks", folder)


def newest(checkpoints: Path, name: str) -> Path:
    """This file of the newest checkpoint."""
    return max(
        checkpoints.glob(f"*/a*/step-*/{name}"),
        key=lambda path: int(path.parent.name.removeprefix("step-")),
    )


def same(one: Path, other: Path) -> bool:
    """Whether their weights are, to the bit."""
    if one.suffix == ".safetensors":
        return one.read_bytes() == other.read_bytes()
    before, after = (torch.load(path, weights_only=True)["state_dict"] for path in (one, other))
    return before.keys() == after.keys() and all(
        torch.equal(before[name], after[name]) for name in before
    )


EVALUATES = {
    'if "loss" in logs:': 'if "loss" in logs or "eval_loss" in logs:',
    '{"train/loss": logs["loss"]}': "{name: of for name, of in logs.items() if name in ('loss', 'eval_loss')}",
    "train_dataset=sentences(300, seed=0)": "train_dataset=sentences(300, seed=0), eval_dataset=sentences(50, seed=2)",
    '"save_steps": 10,': '"save_steps": 10, "eval_strategy": "steps", "eval_steps": 10,',
}


@pytest.mark.slow
def test_a_trainer_that_evaluates_reports_each_step_in_two_parts(workplace: Path) -> None:
    write_tasks(workplace)
    source = (workplace / "bert.py").read_text()
    for old, new in EVALUATES.items():
        assert old in source, old
        source = source.replace(old, new)
    (workplace / "bert.py").write_text(source)
    done = typed(workplace, "train", "task=bert", "sweep.name=s", "train.steps=20")
    assert done.exit_code == 0, done.output
    journal = lines(workplace / "runs" / "s" / "base-s1" / "journal.jsonl")
    found = {line["step"]: {name for name in line["metrics"] if "loss" in name} for line in journal}
    assert found == {step: {"loss", "eval_loss"} for step in (10, 20)}
