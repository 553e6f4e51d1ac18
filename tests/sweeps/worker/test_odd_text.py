"""Text that no file and no terminal can hold, wherever a task's work can say it: at most its own
trial fails."""

import json
from pathlib import Path

import pytest
from faulty_task import write_faulty_task
from typed import typed

SAID = ascii("\x1b[31m [/red] \ud800")
"""As source: a color of the terminal, the end of a style of ours, and a lone surrogate."""
FINISHES = f"""
import torch

def finish(trial, step):
    state = {{{SAID}: 1, "__metadata__": torch.ones(1), {SAID} + "x": torch.ones(2), "text": {SAID}}}
    trial.checkpoint(step, state)
    assert next(trial.states([step])).state["text"] == {SAID}
    trial.notice({SAID})
    trial.evaluated('other', {{}}, {{'texts/a.txt': '\\x1b[31m [/red]'}})
"""


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        ("finish(trial, step)", ""),
        (f"raise ValueError({SAID})", "ValueError: \\x1b[31m [/red] \\ud800"),
        ("raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})", "Mute"),
    ],
    ids=["finishes", "raises", "has no message"],
)
def test_a_trial_that_says_the_unspeakable_fails_at_most_itself(
    workplace: Path, statement: str, cause: str
) -> None:
    write_faulty_task(workplace, f"if step == 3: {statement}", FINISHES)
    outcome = typed(workplace, "train", "task=small", "sweep.name=s")
    trial = workplace / "runs" / "s" / "base-s1"
    assert outcome.exit_code == bool(cause), outcome.output
    assert outcome.stdout.replace("\n", "").isprintable()
    if cause:
        (line,) = [
            line for line in outcome.stdout.splitlines() if line.startswith("base-s1: FAILED: ")
        ]
        assert cause in line
        assert cause in (trial / "error.txt").read_text("utf-8")
    else:
        assert json.loads((trial / "result.json").read_text("utf-8"))["step"] == 4
