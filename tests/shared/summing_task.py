"""The small task with a sum over its workers in each step, by torch.distributed: the loss of one stops the others."""

from pathlib import Path

from faulty_task import FUNCTIONS, HEAD
from small_task import write_task

SUMMED = {
    "        total += trial.config.train.rate * trial.seed\n": """\
            total += sum_over(trial, trial.config.train.rate * trial.seed)
            {each_step}
""",
    "    for step in range(": "    with trial.process_group():\n        for step in range(",
    "        if (stops": "            if (stops",
    "        if regular": "            if regular",
    "            trial.report": "                trial.report",
    "            trial.checkpoint": "                trial.checkpoint",
    "        if stops:\n            return": "            if stops:\n                return",
    HEAD: FUNCTIONS
    + """
import torch

def sum_over(trial, value):
    total = torch.tensor(value, dtype=torch.float64)
    if trial.world > 1:
        torch.distributed.all_reduce(total)
    return total.item()

{functions}

from dataclasses""",
}


def write_summing_task(folder: Path, each_step: str, functions: str = "", files: dict[str, str] | None = None) -> Path:
    """``each_step`` is a statement after the sum of a step; it may call ``functions`` and FUNCTIONS."""
    filled = {
        old: new.replace("{each_step}", each_step).replace("{functions}", functions) for old, new in SUMMED.items()
    }
    return write_task(folder, filled, files)
