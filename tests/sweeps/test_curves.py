"""`ablate status --curves`: learning curves in a terminal, from the journals alone."""

from pathlib import Path

import pytest
from studies_on_disk import begin, make_study
from typed import refusal, typed

from sweeps.curves import HEIGHT, MOST_POINTS, drawn, mean, read_curves
from tracking.study import Study

FALLING = {10: 8.0, 20: 4.0, 30: 2.0, 40: 1.5}
DOTS = set("·")


def reported(study: Study, trial: str, values: dict[int, float], metric: str = "dev/ppl", **more: float) -> None:
    (found,) = [each for each in study.trials if each.name == trial]
    folder = study.trial_folder(found)
    attempt = begin(folder)
    for step, value in values.items():
        assert folder.report(attempt, step, {"train/loss": 2 * value, metric: value, **more})


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Two seeds of base and of a row, and a row that is not started. No trial has a result, and there is no MLflow."""
    study = make_study(tmp_path / "runs" / "three", {"base": [1, 2], "a_heads_1": [1, 2], "c_layers_2": [1]})
    for trial, factor in (("base-s1", 1.0), ("base-s2", 1.2), ("a_heads_1-s1", 2.0), ("a_heads_1-s2", 3.0)):
        reported(study, trial, {step: factor * value for step, value in FALLING.items()})
    return study


def panel(text: str, row: str) -> list[str]:
    """The canvas of one row, top line first, where plots stand one below another."""
    lines = text.splitlines()
    (title,) = [number for number, line in enumerate(lines) if line.startswith(f"{row} ")]
    return [line.split("┤")[-1].split("│")[-1] for line in lines[title + 1 : title + HEIGHT - 2]]


def test_it_names_metric_scale_rows_and_what_has_not_begun(study: Study) -> None:
    text = drawn(study, read_curves(study), 80)
    head, *lines = text.splitlines()
    assert head == "three: dev PPL over training steps. A line per seed; dots: the mean of base."
    assert "Numbers: the last mean." in lines[0]
    assert lines[2].split() == ["base", "1.65", "a_heads_1", "3.75"]
    assert lines[-1] == "Nothing reported yet: c_layers_2"


@pytest.mark.parametrize("width", [20, 40, 80, 100, 120, 200])
def test_it_fits_every_width_and_needs_no_color(study: Study, width: int) -> None:
    text = drawn(study, read_curves(study), width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_falling_curve_falls_from_the_left_to_the_right(study: Study) -> None:
    canvas = panel(drawn(study, read_curves(study), 40), "base")
    first = [min(at for at, mark in enumerate(line) if mark != " ") for line in canvas if line.strip()]
    assert len(first) > 3
    assert first == sorted(first)
    assert not DOTS & set("".join(canvas)), "base is not compared with itself"


def test_base_is_dotted_below_the_curve_of_a_worse_row(study: Study) -> None:
    canvas = panel(drawn(study, read_curves(study), 40), "a_heads_1")
    dots = [number for number, line in enumerate(canvas) if DOTS & set(line)]
    marks = [number for number, line in enumerate(canvas) if set(line) - DOTS - {" "}]
    assert min(marks) < min(dots)
    assert max(marks) < max(dots)


def test_all_plots_share_their_axes(study: Study) -> None:
    lines = drawn(study, read_curves(study), 40).splitlines()
    assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == ["24.00", "12.75", "1.50"] * 2
    assert [line.split() for line in lines if line.lstrip().startswith("0")] == [["0", "40"]] * 2


def test_a_wide_range_gets_a_logarithmic_scale(study: Study) -> None:
    reported(study, "c_layers_2-s1", {10: 1500.0, 20: 150.0})
    text = drawn(study, read_curves(study), 40)
    assert "logarithmic" in text
    ticks = [line.split("┤")[0].strip() for line in text.splitlines() if "┤" in line]
    assert ticks[:3] == ["1500.00", "47.43", "1.50"], "the geometric mean lies in the middle"


@pytest.mark.parametrize("values", [{10: 5.0}, {10: 3.0, 20: 3.0}, {10: 0.0, 20: -400.0}, {10: 1e308, 20: 1e-308}])
def test_any_finite_values_can_be_drawn(tmp_path: Path, values: dict[int, float]) -> None:
    study = make_study(tmp_path / "one", {"base": [1]})
    reported(study, "base-s1", values)
    assert "".join(panel(drawn(study, read_curves(study), 40), "base")).strip()


def test_before_the_first_report_it_says_so(tmp_path: Path) -> None:
    study = make_study(tmp_path / "none", {"base": [1]})
    assert drawn(study, read_curves(study), 80) == "none: no trial has reported dev PPL yet\n"


def test_a_damaged_journal_hides_only_its_own_curve(study: Study) -> None:
    study.trial_folder(study.trials[2]).journal_path.write_text("{}\n" * 3)
    curves = read_curves(study)
    assert {row: len(of_row) for row, of_row in curves.rows.items()} == {"base": 2, "a_heads_1": 1, "c_layers_2": 0}


def test_without_the_headline_the_first_reported_metric_is_drawn(tmp_path: Path) -> None:
    study = make_study(tmp_path / "other", {"base": [1]})
    reported(study, "base-s1", FALLING, "system/cpu_utilization_percentage")
    curves = read_curves(study)
    assert (curves.metric, curves.reported) == ("train/loss", ("train/loss",))
    assert "dev PPL is not reported while training." in drawn(study, curves, 200)


def test_the_headline_of_another_set_comes_before_other_metrics(tmp_path: Path) -> None:
    study = make_study(tmp_path / "other", {"base": [1]})
    reported(study, "base-s1", FALLING, "valid/ppl")
    assert read_curves(study).metric == "valid/ppl"


def test_a_mean_is_over_the_steps_that_all_seeds_have() -> None:
    assert mean([[(1, 2.0), (2, 4.0), (3, 8.0)], [(2, 6.0), (3, 0.0), (4, 1.0)]]) == [(2, 5.0), (3, 4.0)]
    assert mean([[(1, 2.0), (2, 4.0)], [(3, 6.0)]]) == [(1, 2.0), (2, 4.0)]


def test_of_many_points_the_last_one_is_drawn(tmp_path: Path) -> None:
    study = make_study(tmp_path / "many", {"base": [1]})
    reported(study, "base-s1", dict.fromkeys(range(1, 2 * MOST_POINTS), 1.0) | {2 * MOST_POINTS: 9.0})
    top, *_ = panel(drawn(study, read_curves(study), 40), "base")
    assert top.strip()
    assert top[: len(top) // 2].strip() == ""


def test_the_command_draws_the_study_and_names_the_next_command(study: Study) -> None:
    done = typed(study.folder.parents[1], "status", "sweep.name=three", "--curves")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("three: dev PPL over training steps.")
    assert done.stdout.splitlines()[-1].strip().startswith("Next: ablate table")


def test_another_metric_can_be_drawn(study: Study) -> None:
    done = typed(study.folder.parents[1], "status", "sweep.name=three", "--metric", "train/loss")
    assert done.stdout.startswith("three: train/loss over training steps.")


def test_a_metric_that_no_journal_has_is_refused_with_those_that_it_has(study: Study) -> None:
    said = refusal(study.folder.parents[1], "status", "sweep.name=three", "--metric", "train/los")
    assert '--metric is "train/los"' in said
    assert "report train/loss, dev/ppl" in said
    assert "did you mean train/loss?" in said


def test_json_and_curves_are_refused_together(study: Study) -> None:
    assert "--json" in refusal(study.folder.parents[1], "status", "sweep.name=three", "--curves", "--json")
