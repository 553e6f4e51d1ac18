"""Which checkpoints of a trial stay."""

from collections.abc import Mapping, Sequence

from sweeps.checkpoints.manifest import CheckpointId
from sweeps.task import Keep


def to_keep(
    finished: Sequence[CheckpointId], keep: Keep, scores: Mapping[CheckpointId, float | None]
) -> set[CheckpointId]:
    """The checkpoints that ``keep`` asks for. ``finished`` has one of each step, the newest
    first."""
    regular = [checkpoint for checkpoint in finished if checkpoint.step % keep.every == 0]
    staying = {*finished[:1], *regular[: keep.newest]}
    staying |= {checkpoint for checkpoint in finished if checkpoint.step in keep.steps}
    scored = [checkpoint for checkpoint in finished if scores[checkpoint] is not None]
    if keep.best and scored:
        # of equal ones, the first is the latest
        staying.add(min(scored, key=lambda checkpoint: scores[checkpoint] or 0.0))
    return staying
