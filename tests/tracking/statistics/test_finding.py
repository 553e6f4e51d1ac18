"""What the numbers of a test are called: every case of mark, interval and margin, for either
direction of a metric.

Then what is said of seeds that were added or dropped after first results.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from studies_on_disk import begin, finish, make_study

from tracking.activity.later_changes import later_note
from tracking.card import Metric
from tracking.report.forest import COLORS
from tracking.statistics.seeds.finding import FINDING_WORDS, Finding, FindingKind, kind_of, label

EARLY = "2020-01-01T00:00:00+00:00"
LATE = "2999-01-01T00:00:00Z"
UP = Metric("bleu")
DOWN = Metric("ppl", better="down")


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
def test_each_case(
    ends: tuple[float, float], marked: bool, margin: float | None, kind: FindingKind
) -> None:
    low, high = ends
    assert kind_of(UP, (low + high) / 2, low, high, marked, margin) == kind
    assert kind_of(DOWN, -(low + high) / 2, -high, -low, marked, margin) == kind, "less is better"


def test_no_two_findings_share_a_mark_and_opposite_ones_no_color() -> None:
    assert (
        len({words.mark for words in FINDING_WORDS.values()})
        == len(FINDING_WORDS)
        == len({label(kind) for kind in FINDING_WORDS})
    )
    assert COLORS["better"] == COLORS["better by"]
    assert COLORS["worse"] == COLORS["worse within"]
    assert len({COLORS["better"], COLORS["worse"], COLORS["no worse"]}) == 3


def test_what_would_decide_is_said_in_seeds_and_time() -> None:
    assert (
        Finding("undecided", seeds=9, hours=3.14).text
        == "undecided: 80 % power needs 9 seeds, about 3 h 08 min"
    )
    assert Finding("undecided", seeds=9).text == "undecided: 80 % power needs 9 seeds"
    assert Finding("undecided", 0.3, seeds=9, enough=True).text == (
        "undecided, although 9 seeds give 80 % power for a difference of 0.3"
    )
    assert Finding("undecided").text == "undecided: 80 % power needs more than 1000 seeds"


@pytest.mark.parametrize(
    ("asked", "told"),  # commands: time, seeds of base that they add, trials that they drop
    [
        (
            [(EARLY, [1], []), (LATE, [2, 3], []), (LATE, [], [])],
            "Seeds were added once after first results (2, 3):",
        ),
        (
            [(EARLY, [1, 2], []), (LATE, [3], []), (LATE, [4], [])],
            "Seeds were added twice after first results (3, 4):",
        ),
        ([(EARLY, [1], []), (EARLY, [2, 3, 4], [])], ""),  # planned, though they finish late
        (
            [(EARLY, [1, 2, 3, 4], []), (LATE, [], ["a-s1"])],
            "Trials were dropped once after first results:",
        ),
        ([(LATE, [1, 2, 3, 4], [])], ""),  # a row that is new itself
    ],
)
def test_what_was_added_or_dropped_after_first_results(
    tmp_path: Path, asked: list[tuple[str, list[int], list[str]]], told: str
) -> None:
    study = make_study(tmp_path / "study", {"base": [1, 2, 3, 4]})
    finish(study, study.trials[0], begin(study.trial_folder(study.trials[0])), 30)
    commands = []
    for ts, seeds, dropped in asked:
        added = [f"base-s{seed}" for seed in seeds]
        commands.append({"ts": ts, "command": "allelse sweep", "added": added, "dropped": dropped})
    assert later_note(replace(study, asked=tuple(commands))).partition(" p values")[0] == told
    gone = replace(
        study,
        asked=({"ts": EARLY, "command": "allelse drop", "dropped": ["a-s1"], "saw_results": True},),
    )
    assert "dropped once" in later_note(gone), (
        "though the result that was seen is dropped with its trial"
    )
