"""Text that no file and no terminal can hold, wherever a task's work can say it: at most its own trial fails."""

import json
from pathlib import Path

import pytest
from faulty_task import rows_of_sizes, write_faulty_task
from studies import allelse

LONE, MARKUP, COLOR = "\ud800", "[/red]", "\x1b[31m"
SAID = ascii(f"{COLOR} {MARKUP} {LONE}")
"""As source: a color of the terminal, the end of a style of ours, and a lone surrogate."""
KEYS = f"""
    state = {{{SAID}: 1, "__metadata__": torch.ones(1), {SAID} + "x": torch.ones(2), "text": {SAID}}}
    trial.checkpoint(step, state)
    assert next(trial.states([step])).state["text"] == {SAID}
"""
FINISH = {
    "state": KEYS,
    "notice": f"trial.notice({SAID})",
    "printed": f"os.write(1, {SAID}.encode('utf-8', 'surrogatepass') + b'\\x00\\xff\\n')",
    "texts": f"trial.evaluated('other', {{}}, {{'texts/a.txt': {COLOR + MARKUP!a}}})",
}
"""Statements of trials that finish, by their rows."""
FAIL = {
    "state_value": (
        f"trial.checkpoint(step, {{{SAID}: object()}})",
        "StateError: the state at \\x1b[31m [/red] \\ud800",
    ),
    "metric": (f"trial.report(step, {{{SAID}: 1}})", f"has the name {SAID}"),
    "long_path": ("trial.evaluated('other', {}, {'texts/' + 300 * 'x': ''})", "too long"),
    "print": (f"print({LONE!a})", "UnicodeEncodeError"),
    "raised": (f"raise ValueError({SAID})", "ValueError: \\x1b[31m [/red] \\ud800"),
    "kind": (f"raise type({COLOR!a}, (Exception,), {{}})('said')", "\\x1b[31m: said"),
    "unspeakable": ("raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})", "Mute"),
    "rude": ("raise type('Rude', (BaseException,), {})('said')", "Rude: said"),
    "exit": (f"raise SystemExit({SAID})", "\\ud800"),
}
"""Statements of trials that fail, and words of the cause that is printed."""
ODD = """
import torch

def odd(trial, step):
    if step == 3:
        STATEMENTS.get(trial.config.model.size, lambda trial, step: None)(trial, step)
"""


def functions() -> str:
    """One for each row, whose size says which it is."""
    statements = [*FINISH.values(), *(statement for statement, _ in FAIL.values())]
    made = [f"def _{size}(trial, step):\n    {text.strip()}\n" for size, text in enumerate(statements, start=100)]
    table = ", ".join(f"{size}: _{size}" for size in range(100, 100 + len(statements)))
    return "\n".join([ODD, *made, f"STATEMENTS = {{{table}}}\n"])


@pytest.mark.ray
@pytest.mark.slow
def test_a_trial_that_says_the_unspeakable_fails_at_most_itself(workplace: Path) -> None:
    names = [*FINISH, *FAIL]
    rows = rows_of_sizes({name: size for size, name in enumerate(names, start=100)})
    write_faulty_task(workplace, "odd(trial, step)", functions(), rows)
    done = allelse("sweep", "task=small", "sweep.name=s", "sweep.max_failures=0", cwd=workplace)
    study = workplace / "runs" / "s"
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{len(FINISH) + 2} of {len(names) + 2} finished" in done.stdout, done.stdout + done.stderr
    for name in ("base", "square", *FINISH):
        assert json.loads((study / f"{name}-s1" / "result.json").read_text("utf-8"))["step"] == 4, name
    for name, (_, cause) in FAIL.items():
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{name}-s1: FAILED: ")]
        assert cause in line
        assert cause in (study / f"{name}-s1" / "error.txt").read_text("utf-8")
    assert done.stdout.replace("\n", "").isprintable()
