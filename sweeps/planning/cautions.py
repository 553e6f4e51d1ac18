"""What is valid but probably unintended in a plan: lines for the user, which refuse nothing."""

from collections.abc import Iterator

from sweeps.checkpoints.folders import folders_at
from sweeps.planning.plan import Plan
from sweeps.planning.plan_lock import planned_lock_line
from sweeps.planning.studies.advice import some_of
from tracking.study_lock import FOLLOWS
from tracking.uri import without_password


def cautions(plan: Plan) -> Iterator[str]:
    """One line per fault, with the trials that have it."""
    yield from _foreign_checkpoints(plan)
    lock_line = planned_lock_line(plan)
    if lock_line and not lock_line.startswith(FOLLOWS):
        yield lock_line
    trials_by_line: dict[str, list[str]] = {}
    for planned in plan.pending:
        for line in planned.task.cautions(planned.config, planned.data.folder):
            trials_by_line.setdefault(line, []).append(planned.name)
    for line, trials in trials_by_line.items():
        yield f"{some_of(trials, 1)}: {line}"


def _foreign_checkpoints(plan: Plan) -> Iterator[str]:
    """A line if the place for checkpoints has some of trials that have not begun."""
    place_of_checkpoints = plan.shared.paths.checkpoints
    to_train = [planned for planned in plan.pending if planned.name not in plan.sources]
    new = [planned.name for planned in to_train if not planned.folder.attempts_path.exists()]
    if not place_of_checkpoints or not new:
        return
    address = f"{place_of_checkpoints}/{plan.folder.name}"
    folders = folders_at(address)
    trials = [name for name in new if name in folders]
    if trials:
        content = f"checkpoints of {some_of(trials, 1)}"
        owners = f"another study named {plan.folder.name}, or removed trials of this one"
        location = without_password(address)
        yield f"{location} already has {content} from {owners}; this study won't use them"
