"""The pace of a trial from the times of its reports, although the clock may be set meanwhile."""

from pathlib import Path

import pytest

from tracking.look import look
from tracking.trial_folder import TrialFolder

HOUR = 3600.0
EVEN = [10.0 * report for report in range(20)]
"""Reports of ten steps each, a second per step."""
LATE = 10


@pytest.mark.parametrize(
    ("times", "pace"),
    [
        (EVEN, 1.0),
        ([ts + HOUR * (place >= LATE) for place, ts in enumerate(EVEN)], 1.0),
        ([ts - HOUR * (place >= LATE) for place, ts in enumerate(EVEN)], 1.0),
        ([ts + HOUR * (LATE <= place < 15) for place, ts in enumerate(EVEN)], 1.0),
        ([ts + 95 * (place >= LATE) for place, ts in enumerate(EVEN)], 1.5),
        ([0.0, -HOUR], None),
        ([0.0], None),
    ],
    ids=["even", "set forth", "set back", "forth and back", "an evaluation in between", "only set back", "one report"],
)
def test_a_clock_that_is_set_does_not_change_the_pace(tmp_path: Path, times: list[float], pace: float | None) -> None:
    folder = TrialFolder(tmp_path / "base-s1")
    folder.begin_attempt(1, "node-b", 7)
    for report, ts in enumerate(times, start=1):
        folder.report(1, 10 * report, {"train/loss": 1.0}, ts=1e9 + ts)
    seen = look(folder, "key")
    assert seen.pace == pace
    left = seen.seconds_left(1000, now=1e9 + times[-1])
    assert left == (None if pace is None else pace * (1000 - 10 * len(times)))
    assert (seen.seconds_left(1000, now=1e9 + times[-1] + HOUR) or 0.0) >= 0.0
