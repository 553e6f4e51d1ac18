"""What a checkpoint holds of the reports that the journal may lack on disk."""

import pytest

from sweeps.processes.events import Event, Report
from sweeps.worker.reports import SYNCED_EVERY, Reports, Unsynced


def reported(step: int, times: int) -> tuple[Unsynced, list[Event]]:
    """After so many steps, each reported so many times and recorded at once."""
    events: list[Event] = []
    unsynced = Unsynced()
    reports = Reports(unsynced, events.append, 0, again=False)
    for number in range(1, step + 1):
        for time in range(times):
            reports.hold(reports.next_step(number), {f"loss{time}": float(number)})
            reports.send(None, is_last=False)
            unsynced.recorded = number
    return unsynced, events


@pytest.mark.parametrize("times", [1, 2])
def test_a_checkpoint_holds_few_of_the_reports_of_a_long_training(times: int) -> None:
    unsynced, _ = reported(5 * SYNCED_EVERY, times)
    held = unsynced.up_to(5 * SYNCED_EVERY)
    assert len(held) <= SYNCED_EVERY
    assert held[-1].step == 5 * SYNCED_EVERY


def test_a_report_that_joins_one_that_is_on_disk_is_held_until_a_later_one_is_recorded() -> None:
    unsynced, events = reported(1, 2)
    reports = [event for event in events if isinstance(event, Report)]
    assert [report.synced for report in reports] == [False, True]
    (held,) = unsynced.up_to(1)
    assert held.metrics.keys() >= {"loss0", "loss1"}
    unsynced.recorded = 2
    assert unsynced.up_to(1) == []
