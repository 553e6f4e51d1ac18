"""What cannot be defended about observed runs."""

from collections.abc import Sequence

from tracking.observed.doubt import TITLES, Doubt
from tracking.observed.roles import Roles
from tracking.observed.row_doubts import (
    hidden_differences,
    labeled_rows,
    unequal_steps,
    unlike_origins,
    unlike_settings,
)
from tracking.observed.rows import ObservedRows
from tracking.observed.runs import LeftOutRun
from tracking.observed.score_doubts import best_and_last
from tracking.observed.seed_doubts import (
    chosen_seeds,
    left_out_runs,
    missing_seeds,
    repeated_runs,
)


def doubts_of(
    rows: ObservedRows, roles: Roles, left_out: Sequence[LeftOutRun]
) -> tuple[Doubt, ...]:
    """Every doubt, by kind."""
    are_named = roles.row is not None
    doubts = [
        *hidden_differences(rows, are_named),
        *([] if are_named else labeled_rows(rows)),
        *unlike_settings(rows, are_named),
        *unlike_origins(rows),
        *unequal_steps(rows),
        *repeated_runs(rows, roles),
        *missing_seeds(rows, left_out),
        *chosen_seeds(rows, left_out),
        *left_out_runs(left_out),
        *best_and_last(rows, roles, left_out),
    ]
    kinds = [*TITLES]
    return tuple(sorted(doubts, key=lambda doubt: kinds.index(doubt.kind)))
