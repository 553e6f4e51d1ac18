"""What the numbers of a test are called: every case of mark, interval and margin, for either direction of a metric."""

import pytest

from tracking.card import Metric
from tracking.report.forest import COLORS
from tracking.statistics.finding import MARKS, Finding, Kind, kind_of, label

UP, DOWN = Metric("bleu"), Metric("ppl", better="down")


@pytest.mark.parametrize(
    ("ends", "marked", "margin", "kind"),
    [
        ((0.2, 0.8), True, None, "better"),
        ((-0.8, -0.2), True, None, "worse"),
        ((-0.1, 0.9), True, None, "better"),  # marked by Holm, though the interval holds 0
        ((-0.1, 0.9), False, None, "undecided"),
        ((0.2, 0.8), True, 0.2, "better by"),
        ((0.2, 0.8), True, 0.3, "better"),
        ((-0.8, -0.2), True, 0.9, "worse within"),
        ((-0.8, -0.2), True, 0.8, "worse"),
        ((-0.1, 0.9), False, 0.2, "no worse"),
        ((-0.3, 0.9), False, 0.2, "undecided"),
        ((-0.1, 0.1), False, 0.2, "no worse"),
    ],
)
def test_each_case(ends: tuple[float, float], marked: bool, margin: float | None, kind: Kind) -> None:
    low, high = ends
    assert kind_of(UP, (low + high) / 2, low, high, marked, margin) == kind
    assert kind_of(DOWN, -(low + high) / 2, -high, -low, marked, margin) == kind, "less is better"


def test_no_two_findings_share_a_mark_and_opposite_ones_no_color() -> None:
    assert len(set(MARKS.values())) == len(MARKS) == len({label(kind) for kind in MARKS})
    better, worse, equivalent = (
        {COLORS[kind] for kind in kinds}
        for kinds in (("better", "better by"), ("worse", "worse within"), ("no worse",))
    )
    assert not better & worse | better & equivalent | worse & equivalent


def test_what_would_decide_is_said_in_seeds_and_time() -> None:
    assert Finding("undecided", seeds=9, hours=3.14).text == "undecided: 9 seeds, about 3 h 08 min would decide"
    assert Finding("undecided", seeds=9).text == "undecided: 9 seeds would decide"
    assert Finding("undecided", 0.3, seeds=9, enough=True).text == (
        "undecided, although 9 seeds would mark 0.3 with probability 0.8"
    )
    assert Finding("undecided").text == "undecided: more than 1000 seeds would decide"
