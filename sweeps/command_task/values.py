"""The values of placeholders: those of the keys, and those of the trial."""

from pathlib import Path
from typing import Any

from sweeps.command_task.definition import BOOLEANS, Definition, text_of
from sweeps.command_task.template import KEYS, RESUME, Value, placeholders
from sweeps.task import Trial


def key_values(definition: Definition, config: Any) -> dict[str, Value]:
    """The texts of the keys, by placeholder."""
    values: dict[str, Value] = {}
    for name in definition.args:
        value = getattr(config.args, name)
        spelled = definition.booleans.get(name, BOOLEANS[0])
        if isinstance(value, list):
            values[f"{KEYS}{name}"] = [text_of(item, spelled) for item in value]
        else:
            values[f"{KEYS}{name}"] = None if value is None else text_of(value, spelled)
    return values


def planned_steps(definition: Definition, config: Any) -> Any:
    """The number of steps of the file, or the value of the key that it names; None without one."""
    if isinstance(definition.steps, str):
        (name,) = placeholders(definition.steps)
        return getattr(config.args, name.removeprefix(KEYS))
    return definition.steps


def trial_values(trial: Trial[Any], out: Path, checkpoint: Path | None) -> dict[str, Value]:
    """What a command takes from its trial, by placeholder."""
    return {
        "seed": str(trial.seed),
        "out": str(out),
        RESUME: None if checkpoint is None else str(checkpoint),
        "rank": str(trial.rank),
        "world": str(trial.world),
    }


def group_variables(trial: Trial[Any]) -> dict[str, str]:
    """What torch.distributed reads to join the processes of several workers, each with its own
    devices."""
    address = getattr(trial, "address", "")  # of the platform's own trials
    if trial.world == 1 or not address:
        return {}
    host, _, port = address.rpartition(":")
    return {
        "RANK": str(trial.rank),
        "WORLD_SIZE": str(trial.world),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": host.strip("[]"),
        "MASTER_PORT": port,
    }
