"""What is valid but probably unintended in a plan: lines for the user, which refuse nothing."""

from collections.abc import Iterator

from sweeps.planning.plan import Plan
from sweeps.planning.study_lock import planned_lock_line
from sweeps.worker.checkpoint_files import folders_at
from tracking.study_lock import FOLLOWS
from tracking.uri import without_password


def cautions(plan: Plan) -> Iterator[str]:
    """What is valid but probably unintended: one line per fault, with the trials that have it."""
    yield from _taken_place(plan)
    lock_line = planned_lock_line(plan)
    if lock_line and not lock_line.startswith(FOLLOWS):
        yield lock_line
    found: dict[str, list[str]] = {}
    for planned in plan.pending:
        for line in planned.task.cautions(planned.config, planned.prepared_folder):
            found.setdefault(line, []).append(planned.trial.name)
    for line, names in found.items():
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{others}: {line}"


def _taken_place(plan: Plan) -> Iterator[str]:
    """A line if checkpoints of trials that have not begun are there already."""
    elsewhere = plan.composition.shared.paths.checkpoints
    to_train = [planned for planned in plan.pending if planned.trial.name not in plan.sources]
    new = [planned.trial.name for planned in to_train if not planned.folder.attempts_path.exists()]
    if not (elsewhere and new):
        return
    address = f"{elsewhere}/{plan.folder.name}"
    there = folders_at(address)
    if taken := [name for name in new if name in there]:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        owners = f"another study named {plan.folder.name}, or removed trials of this one"
        where = without_password(address)
        yield f"{where} is taken: it holds checkpoints of {taken[0]}{more} from {owners}; they are not used"
