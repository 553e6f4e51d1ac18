"""A group of keys that only score is replaced whole by a typed option, whatever the group's
name."""

from pathlib import Path

import pytest
from allelse_in_folder import plan
from toy_task import BASE, write_toy

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.plan_record import study_with_plan
from tracking.study import read_study, write_study

GROUP = {
    "conf/task/toy/base.yaml": "defaults:\n  - score: last\n"
    + BASE.replace("score: {average: 1, spacing: 10}\n", ""),
    "conf/task/toy/score/last.yaml": "average: 1\nspacing: 10\n",
    "conf/task/toy/score/mean.yaml": "average: 3\nspacing: 5\n",
}
TOY = ("task=toy", "sweep.rows=[base]", "sweep.name=s")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_toy(tmp_path)
    for name, text in GROUP.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_an_option_replaces_what_was_recorded_of_its_group(folder: Path) -> None:
    former_plan = plan(folder, *TOY, "score.average=2")
    write_study(study_with_plan(former_plan, ["allelse"]))
    for words, score in (
        (["score=mean"], (3, 5)),
        (["score=mean", "score.average=4"], (4, 5)),
        ([], (2, 10)),
    ):
        (planned,) = plan_sweep([*TOY, *words], here=folder).trials
        assert (planned.config.score.average, planned.config.score.spacing) == score


ROWS = {"late": "E", "early": "A", "big": "sizes", "more": "A"}


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    """A task whose sweep lists rows of sections that are not in the order of their names."""
    write_toy(tmp_path)
    for index, (row, group) in enumerate(ROWS.items()):
        text = f"# @package _global_\nrow: {{group: {group}}}\nmodel: {{width: {index + 1}}}\n"
        (tmp_path / f"conf/task/toy/row/{row}.yaml").write_text(text, "utf-8")
    (tmp_path / "conf/task/toy/sweep").mkdir()
    sweep_file = f"defaults: [all]\nrows: [{', '.join(['base', *ROWS])}]\n"
    (tmp_path / "conf/task/toy/sweep/mine.yaml").write_text(sweep_file, "utf-8")
    return tmp_path


def rows_of(folder: Path, *words: str) -> list[str]:
    """The rows of a study in the order of its table, after these overrides were recorded."""
    planned = plan_sweep(["task=toy", "sweep.name=s", *words], here=folder, add=True)
    write_study(study_with_plan(planned, ["allelse"]))
    return [trial.row for trial in read_study(folder / "runs/s").trials]


def test_sections_come_in_the_order_in_which_the_sweep_lists_their_rows(listing: Path) -> None:
    assert rows_of(listing, "sweep=mine") == ["base", "late", "early", "more", "big"]


def test_a_part_keeps_that_order_and_so_does_what_is_added(listing: Path) -> None:
    part = ("sweep=mine", "sweep.rows=[big,early,base]")
    assert rows_of(listing, *part) == ["base", "early", "big"]
    assert rows_of(listing, "sweep=mine", "sweep.rows=[late]") == ["base", "late", "early", "big"]


def test_all_rows_without_a_list_come_by_section(listing: Path) -> None:
    (listing / "conf/task/toy/row/narrow.yaml").unlink()
    (listing / "conf/task/toy/row/twin.yaml").unlink()
    assert rows_of(listing) == ["base", "early", "more", "late", "big"]
