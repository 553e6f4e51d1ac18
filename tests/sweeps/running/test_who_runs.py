"""What others see of a process that runs a study on another machine: in `status`, `plan`, `stop`
and refusals."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from finished_trials import finish, study_in, sweep
from typed import refusal, typed

from sweeps.planning.studies.trial_lock import trial_lock
from sweeps.running.stopping import Stopping, announced
from tracking.activity.runners import Runner, announce, known_runners
from tracking.attempts import Process, own_process

ROWS = "sweep.rows=[base,big,a_heads_1]"
ELSEWHERE = Process("node7", 42, "another-42-1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study of which base is finished, and big was begun by a process elsewhere."""
    finish(sweep(tmp_path, ROWS, ends=0).trials[0])
    begin(tmp_path, ELSEWHERE)
    return tmp_path


def own_study(folder: Path) -> Path:
    return study_in(folder).folder


def begin(folder: Path, process: Process) -> None:
    study = study_in(folder)
    study.trial_folder(study.trials[-1]).begin_attempt(1, process)


def record(folder: Path, ago: float, process: Process = ELSEWHERE, waiting: str = "") -> Runner:
    """Its last sign of life was that many seconds ago."""
    timestamp = time.time()
    trials = tuple(trial.name for trial in study_in(folder).trials[1:])
    runner = Runner(process, "allelse sweep", trials, timestamp - 3600, timestamp - ago, waiting)
    announce(own_study(folder), runner)
    return runner


def states(folder: Path) -> dict[str, tuple[str, str]]:
    """State and note by row."""
    outcome = typed(folder, "status", "--json")
    assert outcome.exit_code == 0, outcome.output
    return {line["row"]: (line["state"], line["note"]) for line in json.loads(outcome.stdout)}


def test_its_trials_run_or_wait_while_it_gives_signs_of_life(folder: Path) -> None:
    record(folder, ago=1)
    assert states(folder)["big"] == ("running", "on node7")
    assert states(folder)["a_heads_1"] == ("missing", "waiting for its turn")
    record(folder, ago=1, waiting="4 GPUs, 2 are free")
    assert states(folder)["a_heads_1"][1] == "waiting for 4 GPUs, 2 are free"
    assert typed(folder, "plan").stdout.splitlines()[-1] == "Next: allelse status --watch"


def test_its_trials_do_not_run_once_it_is_silent_or_its_record_is_damaged_or_gone(
    folder: Path,
) -> None:
    record(folder, ago=720)
    assert states(folder)["big"] == ("silent", "silent for 12 min 00 s on node7")
    message = refusal(folder, "stop", "sweep.name=synthetic-tiny")
    assert re.search(r"which is not running; .* on node7 gave no heartbeat for 12 min", message), (
        message
    )
    assert typed(folder, "plan").stdout.splitlines()[-1].startswith("Next: allelse sweep")
    (path,) = (own_study(folder) / ".running").iterdir()
    for content in ("", "[]", '{"process": {"host": 1}, "trials": [], "old": 2}'):
        path.write_text(content)
        assert states(folder)["big"] == ("interrupted", "")
    path.unlink()
    assert states(folder)["big"] == ("interrupted", "")


@pytest.mark.parametrize("ago", [1, 720])
def test_who_holds_a_trial_is_named_also_while_it_is_silent(folder: Path, ago: float) -> None:
    study = study_in(folder)
    record(folder, ago)
    with trial_lock(study.trial_folder(study.trials[-1])):
        message = refusal(folder, "drop", "big", "--yes")
    assert "big-s1 is being run by pid 42 on node7 since " in message
    assert "(1 h 00 min ago): allelse sweep" in message
    assert "`allelse stop sweep.name=synthetic-tiny` stops everything its process runs" in message


def test_a_process_that_was_asked_to_stop_begins_nothing_more(folder: Path) -> None:
    record(folder, ago=1)
    outcome = typed(folder, "stop", "a_heads_1-s1")
    assert (
        "a_heads_1-s1 (pid 42 on node7) will stop after the current step, with a checkpoint;"
        in outcome.stdout
    )
    assert states(folder) == {
        "base": ("finished", ""),
        "big": ("running", "on node7"),
        "a_heads_1": ("missing", "asked to stop"),
    }
    outcome = typed(folder, "stop")
    assert (
        "The sweep (pid 42 on node7) will stop after the current step, with a checkpoint"
        in outcome.stdout
    )
    assert states(folder)["big"] == ("running", "on node7; asked to stop")


def test_what_is_gone_is_removed_when_a_process_announces_itself(folder: Path) -> None:
    dead = replace(own_process(), birth=f"{own_process().birth}0")
    record(folder, 1, dead)
    record(folder, 720)
    with announced(own_study(folder), ["big-s1"], ["allelse", "train"], Stopping()):
        assert [runner.process for runner in known_runners(own_study(folder))] == [own_process()]
    assert [*(own_study(folder) / ".running").iterdir()] == []
