"""A study of the small task that takes its time, and what an undisturbed trial of it gives."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate_in_folder import plan
from small_task import write_task
from studies import lines

from sweeps.events import Finished
from sweeps.running.driver import work
from sweeps.running.recorder import Recorder

SLOW = {"        total +=": "        __import__('time').sleep(0.1)\n        total +="}


def write_slow_task(folder: Path) -> Path:
    """Ten steps a second."""
    return write_task(folder, SLOW)


def undisturbed(cwd: Path, words: Sequence[str], row: str, folder: Path) -> Finished:
    """The end of the same trial, run in this process with its checkpoints in ``folder``. Call it in ``cwd``."""
    (planned,) = plan(cwd, *words, f"sweep.rows=[{row}]").trials
    assignment = replace(Recorder(planned).assignment(), checkpoints=str(folder), evaluated={})
    *_, finished = work(assignment, 0, 1, "", lambda: False)
    assert isinstance(finished, Finished)
    return finished


def newest_state(checkpoints: Path) -> tuple[int, Any]:
    """Step and state of the newest checkpoint of all attempts."""
    found = {int(path.parent.name.removeprefix("step-")): path for path in checkpoints.glob("*/a*/step-*/state.pickle")}
    return max(found), pickle.loads(found[max(found)].read_bytes())


def reasons(trial: Path) -> list[str]:
    """Why its attempts ended."""
    return [line["reason"] for line in lines(trial / "attempts.jsonl") if line.get("end")]
