"""What a figure shows of a study: every row's end, every seed's steps, and every difference."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from reported import reported

from tracking.report.page import Content
from tracking.study import Study, read_study
from tracking.table.study_table import whole_table

PUBLISHED = Path(__file__).resolve().parents[3] / "studies/multi30k-quarter"
NAMES = ["a_heads_1", "c_layers_2", "base"]  # in the order in which a panel draws them


def content_of(study: Study) -> Content:
    return Content(whole_table(study), {})


def panel_of(study: Study, name: str) -> Any:
    """The axes of the only panel of this journal name."""
    ((drawing),) = content_of(study).curves[name]
    (axes,) = drawing.figure.axes
    return axes


def lines_of(axes: Any) -> dict[str, Any]:
    return dict(zip(NAMES, axes.lines, strict=True))


def test_a_row_that_trained_for_longer_leaves_the_ends_of_the_others_in_the_picture(
    tmp_path: Path,
) -> None:
    study = reported(tmp_path / "study")
    for trial in study.trials:
        if trial.row == "c_layers_2":
            folder = study.trial_folder(trial)
            for step in range(60, 160, 10):
                assert folder.report(1, step, {"dev/nll": 0.4 + 10 / step}, ts=1_900_000_100.0)
    axes = panel_of(study, "dev/nll")
    low, high = axes.get_ylim()
    for name, line in lines_of(axes).items():
        assert low < line.get_ydata()[-1] < high, name
    assert axes.get_xlim()[1] == pytest.approx(150, rel=0.02)


def test_a_trial_that_was_interrupted_leaves_no_hole_in_the_mean(tmp_path: Path) -> None:
    study = reported(tmp_path / "study", steps=range(10, 2010, 10))
    journal = study.trial_folder(study.trials[0]).journal_path
    lines = journal.read_text().splitlines(keepends=True)
    assert '"step": 1000,' in lines[99]
    lines.insert(100, lines[99].replace('"step": 1000,', '"step": 1003,'))
    journal.write_text("".join(lines))
    steps = list(lines_of(panel_of(study, "train/loss"))["base"].get_xdata())
    gaps = [after - before for before, after in pairwise(steps)]
    assert steps[-1] == 2000
    assert max(gaps) <= 60, "without the extra report it would be at most 40"


def test_ours_and_the_published_differences_share_one_scale_that_ends_where_they_do(
    tmp_path: Path,
) -> None:
    differences = content_of(reported(tmp_path / "study")).differences
    (axes,) = {drawing.name: drawing for drawing in differences}["differences-ppl"].figure.axes
    assert axes.child_axes == [], "a second scale at the top"
    in_data = [line for line in axes.lines if line.get_transform() == axes.transData]
    drawn = [x for line in in_data for x in line.get_xdata()]
    low, high = axes.get_xlim()
    width = high - low
    assert low < min(drawn) < low + 0.05 * width
    assert high - 0.05 * width < max(drawn) < high


def test_a_row_far_from_all_others_is_an_arrow_with_its_value() -> None:
    """Without dropout, perplexity rises three times as much as in any other row."""
    differences = content_of(read_study(PUBLISHED)).differences
    (axes,) = {drawing.name: drawing for drawing in differences}["differences-ppl"].figure.axes
    (value,) = [text.get_text() for text in axes.texts if text.get_text()[:2] == "+4"]
    assert 1 < axes.get_xlim()[1] < 2, value
