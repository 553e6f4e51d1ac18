"""Damaged files of a plan's trials: kept, told, and rebuilt where something else says what they held."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress

import yaml
from rich.console import Console
from rich.markup import escape

from sweeps.planning.plan import Plan, PlannedTrial, config_dict
from sweeps.planning.trial_lock import trial_lock
from tracking.files import write_atomic
from tracking.salvage import salvage
from transformer.schema import RefusedError

WHAT_FOLLOWS = {
    "result.json": "the trial goes on from its last checkpoint and writes it again",
    "config.yaml": "it is written again",
    "provenance.json": "the next attempt writes it again",
}


def repair(plan: Plan, console: Console) -> None:
    """Make every trial of the plan readable. Pending ones must be locked; a finished one that another process holds is
    left to that process."""
    for planned in plan.trials:
        if _is_whole(planned):
            continue
        with suppress(RefusedError), trial_lock(planned.folder) if planned.finished else nullcontext():
            for line in _repaired(planned):
                console.print(escape(f"{planned.trial.name}: {line}"), soft_wrap=True)


def _is_whole(planned: PlannedTrial) -> bool:
    return not planned.folder.damage() and (planned.folder.config_path.exists() or not planned.finished)


def _repaired(planned: PlannedTrial) -> Iterator[str]:
    folder = planned.folder
    for error in folder.damage():
        words = [error.note, salvage(folder, error), WHAT_FOLLOWS.get(error.path.name, "")]
        yield "; ".join(filter(None, words))
    if folder.path.is_dir() and not folder.config_path.exists():
        write_atomic(folder.config_path, yaml.safe_dump(config_dict(planned), sort_keys=False, allow_unicode=True))
