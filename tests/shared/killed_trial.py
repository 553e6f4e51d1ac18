"""A trial in a process of its own, which the task kills once, and the weights that it ends with."""

import json
import os
from pathlib import Path

from allelse_in_folder import ALLELSE
from served_commands import run_command

KILLED = """\
import os
import signal
import time
from dataclasses import replace

import run as module


class Killed:
    # the process dies at the call of this step, once, when a checkpoint is complete
    def __init__(self, trial):
        self.trial, self.step = trial, trial.saved.step if trial.saved else 0

    def __getattr__(self, name):
        return getattr(self.trial, name)

    def stopping(self):
        self.step += 1
        if self.step == 17 and not os.path.exists("killed"):
            while not any(self.trial.folder.parent.glob("a*/step-*/manifest.json")):
                time.sleep(0.01)
            open("killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.trial.stopping()


task = replace(module.run, work=lambda trial: module.run.work(Killed(trial)))
"""
"""Runs the task of ``run.py``, whose function is ``run``."""
KILLED_AT_THE_END = """\
import os
import signal
from dataclasses import replace

import run as module


def work(trial):
    total = module.run.work(trial)
    if not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return total


task = replace(module.run, work=work)
"""
"""The process dies once, after the last step and before the result."""
FRAMEWORKS = ("lightning", "transformers.models.bert.modeling_bert", "transformers.trainer")
"""What the tasks import for seconds."""


def trained(folder: Path, name: str, study: str) -> int:
    command = [str(ALLELSE), "train", f"task={name}", f"sweep.name={study}", "tracking=off"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return run_command(command, folder, environment, modules=FRAMEWORKS).returncode


def total(folder: Path, study: str) -> float:
    """Of the absolute values of all weights."""
    result = json.loads((folder / "runs" / study / "base-s1" / "result.json").read_text("utf-8"))
    return float(result["scores"]["test"]["total"])
