"""New code that changes nothing for old trials: shown by training one of them again."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from place import STUDY, TEN, Place
from served_commands import PROGRAM

SAME = "def one():\n    value = 1.0\n    return value\n"
VOUCH = ("sweep", STUDY, "--vouch")


def left_behind(project: Place) -> list[str]:
    return [path.name for path in (project.folder / "runs").iterdir() if "vouching" in path.name]


def vouched(project: Place) -> list[dict[str, object]]:
    records: list[dict[str, object]] = json.loads((project.study / "study.json").read_text())[
        "vouched"
    ]
    return records


def test_code_that_trains_the_same_weights_marks_no_row_and_its_trials_are_taken(
    trained: Place,
) -> None:
    project = trained
    project.write({"parts/one.py": SAME})
    assert "has changed" in project.refused("train", "task=toy", STUDY, "row=size_2", "--add")
    taking = ("plan", "task=toy", "sweep.name=second", "sweep.rows=[base]")
    assert "other code trained it" in " ".join(project.must(*taking).split())
    output = " ".join(project.must(*VOUCH).split())
    assert "base-s1: the same weights, bit by bit, after 4 steps" in output
    assert left_behind(project) == []
    project.train("size_2", "--add")
    assert project.score("size_2-s1") == 8.0
    table = " ".join(project.must("table", STUDY).split())
    assert "‡" not in table
    assert "count as the same because they trained base-s1 to the same weights" in table
    assert "taken from toy" in project.must(*taking)
    project.must("sweep", *taking[1:])
    project.must("train", *taking[1:3], "row=size_3", "--add")
    assert "‡" not in project.must("table", "sweep.name=second")


def test_code_that_trains_other_weights_is_refused_with_the_step_at_which_reports_part(
    trained: Place,
) -> None:
    trained.write({"parts/one.py": TEN})
    old_record = (trained.study / "study.json").read_bytes()
    refusal = trained.refused("sweep", "base-s1", STUDY, "--vouch")
    assert "the reports first differ at step 1: train/loss 10, was 1" in refusal
    assert left_behind(trained) == []
    assert (trained.study / "study.json").read_bytes() == old_record
    assert "has changed" in trained.refused("train", "task=toy", STUDY, "row=size_2", "--add")


def with_record(project: Place, name: str, value: object) -> None:
    """The attempt of base was recorded with this value."""
    path = project.study / "base-s1" / "provenance.json"
    content = json.loads(path.read_text())
    for record in (content, *content["attempts"]):
        record[name] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (
            "cpu",
            {"model": "Z80", "count": 1},
            "but was Z80: only the same kind of machine",
        ),
        (
            "versions",
            {"rich": "0.0.1"},
            "but was 0.0.1: only the same kind of machine, with the same packages",
        ),
    ],
)
def test_another_kind_of_machine_cannot_vouch(
    trained: Place, name: str, value: object, reason: str
) -> None:
    trained.joins = False  # on a cluster, its CPUs are compared only afterwards
    trained.write({"parts/one.py": SAME})
    with_record(trained, name, value)
    assert reason in trained.refused(*VOUCH)
    assert vouched(trained) == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((STUDY,), "today's code has trained it"),
        (("size_9-s1", STUDY), 'names "size_9-s1"'),
        (("task=toy", "sweep.name=none"), "has no study none to compare with"),
        ((STUDY, "--changed-code"), "can't be combined with --vouch"),
    ],
)
def test_what_cannot_be_vouched_for_is_refused(
    trained: Place, words: tuple[str, ...], reason: str
) -> None:
    assert reason in trained.refused("sweep", *words, "--vouch")


def test_an_interrupted_comparison_leaves_nothing(trained: Place) -> None:
    project = trained
    project.write({"parts/one.py": SAME, "waits": ""})
    old_record = (project.study / "study.json").read_bytes()
    process = subprocess.Popen([str(PROGRAM), *VOUCH], cwd=project.folder)
    try:
        deadline = time.monotonic() + 300
        while not (project.folder / "waited").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 128 + signal.SIGINT
    finally:
        process.kill()
        (project.folder / "waits").unlink()
    assert left_behind(project) == []
    assert (project.study / "study.json").read_bytes() == old_record
    assert Path(project.study, "base-s1", "result.json").exists()
