"""The next command that each verb prints comes from the recorded study, and runs what it promises."""

import contextlib
import json
import os
import shlex
import socket
import time
from pathlib import Path

import pytest
from finished_trials import sweep
from typed import refusal, typed

from sweeps.planning.continued import plan_sweep
from sweeps.planning.naming import called, placed
from sweeps.planning.overrides import parse_overrides
from sweeps.planning.task_named import library_of
from sweeps.running.recorder import Recorder
from sweeps.show import show_outcome
from tracking.runners import Runner, announce, request_stop
from tracking.shell import shell_line
from tracking.trial_folder import TrialFolder

ROWS = "sweep.rows=[base,d_smoothing_0,d_dropout_0]"
STEPS = "train.steps=200"
MISSING = ["d_dropout_0-s1", "d_smoothing_0-s1"]  # in the order of the table


def named(output: str) -> list[str]:
    """The arguments after `ablate` in the last line."""
    line = output.strip().splitlines()[-1]
    assert line.startswith("Next: ablate "), output
    return shlex.split(line.removeprefix("Next: ablate "))


def next_of(folder: Path, *arguments: str) -> list[str]:
    done = typed(folder, *arguments)
    assert done.exit_code == 0, done.output
    return named(done.stdout)


def would_run(folder: Path, arguments: list[str]) -> list[str]:
    """The trials that `ablate sweep …` would run: `plan` shows them."""
    assert arguments[0] == "sweep"
    done = typed(folder, "plan", *arguments[1:], "--json")
    assert done.exit_code == 0, done.output
    return [f"{t['row']}-s{t['seed']}" for t in json.loads(done.stdout) if not t["finished"]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three rows of 200 steps in the default study; base is finished."""
    sweep(tmp_path, ROWS, STEPS, ends=0)
    sweep(tmp_path, "sweep.rows=[base]")
    return tmp_path


@pytest.mark.parametrize("verb", ["status", "plan"])
def test_a_running_study_is_to_be_watched(folder: Path, verb: str) -> None:
    """Although trials are missing from its table."""
    now = time.time()
    announce(folder / "runs" / "synthetic-tiny", Runner(socket.gethostname(), os.getpid(), now, now, tuple(MISSING)))
    assert next_of(folder, verb) == ["status", "--watch"]


def test_the_last_trials_that_run_are_to_be_watched(folder: Path) -> None:
    for name in MISSING:
        TrialFolder(folder / "runs" / "synthetic-tiny" / name).begin_attempt(1, socket.gethostname(), os.getpid())
    assert next_of(folder, "status") == ["status", "--watch"]
    assert "to run 0 of 3 trials, 2 running or waiting" in plan_of(folder)


def plan_of(folder: Path) -> str:
    """What `ablate plan` prints, with single spaces."""
    return " ".join(typed(folder, "plan").stdout.split())


def test_trials_that_have_failed_or_were_asked_to_stop_neither_run_nor_wait(folder: Path) -> None:
    """Although their sweep still runs."""
    now, study = time.time(), folder / "runs" / "synthetic-tiny"
    runner = Runner(socket.gethostname(), os.getpid(), now, now, tuple(MISSING))
    announce(study, runner)
    trial = TrialFolder(study / MISSING[0])
    trial.begin_attempt(1, "node7", 42)
    trial.write_error("it failed in an earlier sweep\n")
    trial.end_attempt(1, "failed: in an earlier sweep")
    assert "to run 0 of 3 trials, 2 running or waiting" in plan_of(folder)
    trial.begin_attempt(2, runner.host, runner.pid)
    trial.write_error("it failed\n")
    trial.end_attempt(2, "failed: it failed")
    assert "to run 1 of 3 trials, 1 running or waiting" in plan_of(folder)
    request_stop(study, runner, MISSING[1:])
    assert "to run 2 of 3 trials " in plan_of(folder)


def test_a_trial_that_stops_elsewhere_runs_until_it_has_stopped(folder: Path) -> None:
    now, study = time.time(), folder / "runs" / "synthetic-tiny"
    runner = Runner("node7", 42, now, now, tuple(MISSING))
    announce(study, runner)
    trial = TrialFolder(study / MISSING[0])
    trial.begin_attempt(1, "node7", 42)
    request_stop(study, runner, None)
    assert "to run 1 of 3 trials, 1 running or waiting" in plan_of(folder)
    assert next_of(folder, "plan") == ["status", "--watch"]
    trial.end_attempt(1, "interrupted")
    assert "to run 2 of 3 trials " in plan_of(folder)


def test_a_folder_behind_a_link_is_where_a_command_looks_by_itself(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "runs").symlink_to("shared")
    with contextlib.chdir(tmp_path):
        assert placed(tmp_path / "shared" / "s") == []
        assert placed(tmp_path / "other" / "s") == [f"paths.runs={tmp_path}/other"]


def test_status_leads_to_exactly_what_is_missing(folder: Path) -> None:
    for arguments in ([], [ROWS, STEPS]):
        advice = next_of(folder, "status", *arguments)
        assert advice == ["sweep"]
        assert would_run(folder, advice) == MISSING


def test_status_of_a_study_with_a_name_and_places_names_both(tmp_path: Path) -> None:
    places = ["sweep.name='my study (1)'", "paths.runs='else where'"]
    sweep(tmp_path, *places, ROWS, STEPS, "scale=tiny", ends=0)
    advice = next_of(tmp_path, "status", *places, "cluster.workers=2")
    assert advice == ["sweep", *places, "cluster.workers=2"]
    assert would_run(tmp_path, advice) == ["base-s1", *MISSING]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("my study", "'sweep.name=my study'"),
        ("my study (1)", "\"sweep.name='my study (1)'\""),
        ("True", "\"sweep.name='True'\""),
        ("nan", "\"sweep.name='nan'\""),
    ],
)
def test_a_name_is_shown_as_it_is_typed_most_easily(tmp_path: Path, name: str, shown: str) -> None:
    words = called(tmp_path / name)
    assert shlex.split(shell_line(words)) == words
    assert shell_line(words) == shown
    overrides, problems = parse_overrides(words, library_of(words, tmp_path))
    assert (overrides.values["sweep.name"], problems) == (name, [])


def test_a_study_named_by_its_data_and_scale_is_named_by_its_name(tmp_path: Path) -> None:
    sweep(tmp_path, "scale=half", "data=multi30k", "sweep.rows=[base]", ends=0)
    advice = next_of(tmp_path, "status", "scale=half", "data=multi30k")
    assert advice == ["sweep", "sweep.name=multi30k-half"]
    assert would_run(tmp_path, advice) == ["base-s1"]


def test_status_shows_trials_to_score_again(tmp_path: Path) -> None:
    sweep(tmp_path, "sweep.rows=[base,d_smoothing_0]")
    assert next_of(tmp_path, "status") == ["table"]
    sweep(tmp_path, "decode.beam=2", ends=1)
    advice = next_of(tmp_path, "status")
    assert (advice, len(would_run(tmp_path, advice))) == (["sweep"], 1)
    assert "to score again" in typed(tmp_path, "status").stdout


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
        (["decode.beam=2", "cluster.workers=2"], ["decode.beam=2", "cluster.workers=2"], ["base-s1", *MISSING]),
        (["sweep.rows=[base,big]", STEPS, "--add"], ["sweep.rows=[base,big]", "--add"], ["big-s1"]),
        (["sweep.name=synthetic-tiny", "sweep.seeds=[1]"], [], MISSING),
    ],
)
def test_a_plan_of_a_recorded_study_leads_to_what_it_showed(
    folder: Path, arguments: list[str], advice: list[str], runs: list[str]
) -> None:
    found = next_of(folder, "plan", *arguments)
    assert found == ["sweep", *advice]
    assert would_run(folder, found) == runs


def test_a_finished_study_leads_to_its_table_and_its_runs(tmp_path: Path) -> None:
    places = ["paths.runs=elsewhere"]
    sweep(tmp_path, "sweep.name=x", *places, "sweep.rows=[base]")
    for verb in ("plan", "status"):
        advice = next_of(tmp_path, verb, "sweep.name=x", *places, "sweep.rows=[base]")
        assert advice == ["table", "sweep.name=x", *places]
    assert next_of(tmp_path, *advice) == ["ui", "sweep.name=x", *places]


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["sweep.name=x"], ["sweep.name=x"]),
        (["sweep.name=x", "sweep.rows=[base]", STEPS], ["sweep.name=x", "sweep.rows=[base]"]),
    ],
)
def test_a_failure_leads_to_the_requested_trials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], advice: list[str]
) -> None:
    sweep(tmp_path, "sweep.name=x", ROWS, STEPS, ends=0)
    planned = plan_sweep(arguments, here=tmp_path)
    for trial in planned.trials:
        recorder = Recorder(trial)
        recorder.begin()
        recorder.fail("OutOfMemoryError: too wide")
    with contextlib.chdir(tmp_path):
        assert show_outcome(planned, "sweep", arguments) == 1
    found = named(capsys.readouterr().out)
    assert found == ["sweep", *advice]
    assert would_run(tmp_path, found) == [trial.trial.name for trial in planned.trials]


def test_a_refusal_of_new_rows_names_a_command_that_adds_them(folder: Path) -> None:
    refused = typed(folder, "sweep", "sweep.rows=[big]")
    (line,) = [line for line in refused.stderr.splitlines() if "to add: " in line]
    command = shlex.split(line.partition("to add: ablate ")[2])
    assert (refused.exit_code, would_run(folder, command)) == (2, ["big-s1"])


def test_train_with_several_workers_leads_to_the_sweep_of_that_trial(tmp_path: Path) -> None:
    message = refusal(tmp_path, "train", "row=big", "train.seed=3", "cluster.workers=2", STEPS)
    assert "cluster.workers (command line) is 2, but `ablate train` runs one process" in message
    assert message.endswith("Nothing was started.")
    command = shlex.split(message.partition("run `")[2].partition("`")[0])
    assert command == ["ablate", "sweep", "sweep.rows=[big]", "sweep.seeds=[3]", "cluster.workers=2", STEPS]
    assert would_run(tmp_path, command[1:]) == ["big-s3"]
