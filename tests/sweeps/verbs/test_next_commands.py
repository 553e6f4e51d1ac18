"""The next command that each verb prints comes from the recorded study, and runs what it
promises."""

import json
import shlex
from pathlib import Path

import pytest
from finished_trials import sweep
from typed import printed, refusal, typed

ROWS = "sweep.rows=[base,d_smoothing_0,d_dropout_0]"
STEPS = "train.steps=200"
NAMED = "sweep.name=synthetic-tiny"
MISSING = ["d_dropout_0-s1", "d_smoothing_0-s1"]  # in the order of the table


def next_of(folder: Path, *arguments: str) -> list[str]:
    """The arguments after `allelse` in the last line."""
    line = printed(folder, *arguments).strip().splitlines()[-1]
    assert line.startswith("Next: allelse "), line
    return shlex.split(line.removeprefix("Next: allelse "))


def would_run(folder: Path, arguments: list[str]) -> list[str]:
    """The trials that `allelse sweep …` would run: `plan` shows them."""
    assert arguments[0] == "sweep"
    trials = json.loads(printed(folder, "plan", *arguments[1:], "--json"))
    return [f"{trial['row']}-s{trial['seed']}" for trial in trials if not trial["finished"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rows of 200 steps in the default study; base is finished. Only read."""
    folder = tmp_path_factory.mktemp("next").resolve()
    sweep(folder, ROWS, STEPS, ends=0)
    sweep(folder, "sweep.rows=[base]")
    return folder


def test_status_of_a_study_with_a_name_and_places_names_both(tmp_path: Path) -> None:
    places = ["sweep.name='my study (1)'", "paths.runs='else where'"]
    sweep(tmp_path, *places, ROWS, STEPS, "scale=tiny", ends=0)
    advice = next_of(tmp_path, "status", *places)
    assert advice == ["sweep", *places]
    assert would_run(tmp_path, advice) == ["base-s1", *MISSING]


def test_status_shows_trials_to_score_again(tmp_path: Path) -> None:
    sweep(tmp_path, "sweep.rows=[base,d_smoothing_0]")
    assert next_of(tmp_path, "status") == ["table"]
    sweep(tmp_path, "decode.beam=2", ends=1)
    advice = next_of(tmp_path, "status")
    assert (advice, len(would_run(tmp_path, advice))) == (["sweep", NAMED], 1)
    assert "to score again" in printed(tmp_path, "status")


def test_a_plan_of_a_new_study_leads_to_a_sweep_with_the_same_overrides(tmp_path: Path) -> None:
    arguments = ["sweep.name=x", "sweep.rows=[base,big]", STEPS]
    advice = next_of(tmp_path, "plan", *arguments)
    assert advice == ["sweep", *arguments]
    assert would_run(tmp_path, advice) == ["base-s1", "big-s1"]


@pytest.mark.parametrize(
    ("arguments", "advice", "runs"),
    [
        ([], [], MISSING),
        ([ROWS, STEPS], [], MISSING),
        (["sweep.rows=[d_dropout_0]"], ["sweep.rows=[d_dropout_0]"], MISSING[:1]),
        (
            ["decode.beam=2", "cluster.workers=2"],
            ["decode.beam=2", "cluster.workers=2"],
            ["base-s1", *MISSING],
        ),
        (
            ["sweep.rows=[base,big]", STEPS, "--add"],
            ["sweep.rows=[base,big]", STEPS, "--add"],
            ["big-s1"],
        ),
        (
            ["row=base", "model.p_drop=0.2,0.3", STEPS, "--add"],
            ["row=base", "model.p_drop=0.2,0.3", STEPS, "--add"],
            ["p_drop_0.2-s1", "p_drop_0.3-s1"],
        ),
    ],
)
def test_a_plan_of_a_recorded_study_leads_to_what_it_showed(
    folder: Path, arguments: list[str], advice: list[str], runs: list[str]
) -> None:
    command = next_of(folder, "plan", *arguments)
    assert next_of(folder, "status") == ["sweep", NAMED]
    assert command == ["sweep", NAMED, *advice]
    assert would_run(folder, command) == runs


def test_a_finished_study_leads_to_its_table_and_its_runs(tmp_path: Path) -> None:
    places = ["paths.runs=elsewhere"]
    sweep(tmp_path, "sweep.name=x", *places, "sweep.rows=[base]")
    for words in (("plan", "sweep.rows=[base]"), ("status",)):
        advice = next_of(tmp_path, *words, "sweep.name=x", *places)
        assert advice == ["table", *places], "the only study needs no name"
    assert next_of(tmp_path, *advice) == ["ui", *places]


def test_a_refusal_of_new_rows_names_a_command_that_adds_them(folder: Path) -> None:
    outcome = typed(folder, "sweep", "sweep.rows=[big]")
    (line,) = [line for line in outcome.stderr.splitlines() if "to add: " in line]
    command = shlex.split(line.partition("to add: allelse ")[2])
    assert (outcome.exit_code, would_run(folder, command)) == (2, ["big-s1"])


def test_train_with_several_workers_leads_to_the_sweep_of_that_trial(tmp_path: Path) -> None:
    message = refusal(tmp_path, "train", "row=big", "train.seed=3", "cluster.workers=2", STEPS)
    assert "cluster.workers (command line) is 2, but `allelse train` runs one process" in message
    assert message.endswith("Nothing was started.")
    command = shlex.split(message.partition("run `")[2].partition("`")[0])
    assert command == [
        "allelse",
        "sweep",
        "sweep.rows=[big]",
        "sweep.seeds=[3]",
        "cluster.workers=2",
        STEPS,
    ]
    assert would_run(tmp_path, command[1:]) == ["big-s3"]
