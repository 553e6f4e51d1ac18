"""What a person left, or lost: a task of another version, and a sweep that cannot succeed."""

import pytest
from place import STUDY, TOY, Place


def test_another_version_of_the_task_is_not_mixed_with_the_old_rows(place: Place) -> None:
    place.train("base")
    place.write({"toy.py": TOY.replace('Task("toy", 1,', 'Task("toy", 2,')})
    said = place.refused("train", "task=toy", STUDY, "row=size_2", "--add")
    assert "version 1" in said
    assert "another sweep.name" in said
    place.must("plan", "task=toy", "sweep.name=second")


@pytest.mark.ray
def test_a_sweep_that_cannot_succeed_ends_after_three_trials(place: Place) -> None:
    place.write({"fails": "no such file: 17"})
    done = place.type("sweep", "task=toy", STUDY, "sweep.rows=[base,size_2,size_3,size_4,size_5]", "sweep.seeds=[1,2]")
    assert done.returncode == 1
    assert "3 trials in a row failed before their first report: RuntimeError: no such file" in done.stdout + done.stderr
    assert len([*place.study.glob("*/error.txt")]) < 10
