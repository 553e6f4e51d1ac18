"""Text that no file and no terminal can hold, wherever a task's work can say it: at most its own trial fails."""

import json
from pathlib import Path

import pytest
from faulty_task import rows_of_sizes, write_faulty_task
from studies import allelse

from sweeps.preflight.machine import cpus

SAID = ascii("\x1b[31m [/red] \ud800")
"""As source: a color of the terminal, the end of a style of ours, and a lone surrogate."""
FINISHES = f"""
    state = {{{SAID}: 1, "__metadata__": torch.ones(1), {SAID} + "x": torch.ones(2), "text": {SAID}}}
    trial.checkpoint(step, state)
    assert next(trial.states([step])).state["text"] == {SAID}
    trial.notice({SAID})
    os.write(1, {SAID}.encode('utf-8', 'surrogatepass') + b'\\x00\\xff\\n')
    trial.evaluated('other', {{}}, {{'texts/a.txt': '\\x1b[31m [/red]'}})
"""
"""Statements of a trial that finishes."""
FAIL = {
    "raised": (f"raise ValueError({SAID})", "ValueError: \\x1b[31m [/red] \\ud800"),
    "unspeakable": ("raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})", "Mute"),
    "rude": ("raise type('\\x1b[31m', (BaseException,), {})('said')", "\\x1b[31m: said"),
}
"""Statements of trials that fail, and words of the cause that is printed."""
ODD = """
import torch

def odd(trial, step):
    if step == 1:
        with (HERE / "workers").open("a") as file:
            file.write(f"{os.getpid()}\\n")
    if step == 3:
        STATEMENTS.get(trial.config.model.size, lambda trial, step: None)(trial, step)
"""


def functions() -> str:
    """One for each row, whose size says which it is."""
    statements = [FINISHES, *(statement for statement, _ in FAIL.values())]
    made = [f"def _{size}(trial, step):\n    {text.strip()}\n" for size, text in enumerate(statements, start=100)]
    table = ", ".join(f"{size}: _{size}" for size in range(100, 100 + len(statements)))
    return "\n".join([ODD, *made, f"STATEMENTS = {{{table}}}\n"])


@pytest.mark.ray
@pytest.mark.slow
def test_a_trial_that_says_the_unspeakable_fails_at_most_itself(workplace: Path) -> None:
    """The trials run one by one, and as long as none fails in the same process, which has imported torch."""
    rows = ["finishes", *FAIL]
    sizes = rows_of_sizes({name: size for size, name in enumerate(rows, start=100)})
    write_faulty_task(workplace, "odd(trial, step)", functions(), sizes)
    words = ["task=small", "sweep.name=s", f"sweep.rows=[{','.join(['base', *rows])}]"]
    done = allelse("sweep", *words, "sweep.max_failures=0", f"cluster.cpus_per_worker={cpus()}", cwd=workplace)
    study = workplace / "runs" / "s"
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 of 5 finished" in done.stdout, done.stdout + done.stderr
    for name in ("base", "finishes"):
        assert json.loads((study / f"{name}-s1" / "result.json").read_text("utf-8"))["step"] == 4, name
    for name, (_, cause) in FAIL.items():
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{name}-s1: FAILED: ")]
        assert cause in line
        assert cause in (study / f"{name}-s1" / "error.txt").read_text("utf-8")
    assert done.stdout.replace("\n", "").isprintable()
    first, second, third, *others = (workplace / "workers").read_text().splitlines()
    assert first == second == third
    assert third not in others
