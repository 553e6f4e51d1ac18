"""The life of one small study: run, run again, evaluated again, extended, and with a row that
fails."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from joined_ray import JoinedRay
from small_text import TEXT
from studies import SMALL, allelse, answers, command, lines, mlflow_runs, wait_until
from typed import refusal, typed

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SHORT = [*SMALL, *TEXT, "train.steps=60", "train.checkpoint_every=30"]
DEFAULT = "sweep.name=synthetic-tiny"
"""The name that commands without words mean."""
TWO_ROWS = "sweep.rows=[base,e_learned_positions]"
THREE_ROWS = "sweep.rows=[base,d_dropout_0,e_learned_positions]"


class Study:
    """The folder where every command runs, and the output of the first one."""

    def __init__(self, cwd: Path, first: subprocess.CompletedProcess[str]) -> None:
        self.cwd = cwd
        self.first = first
        self.folder = cwd / "runs" / "synthetic-tiny"

    def result(self, trial: str, name: str = "synthetic-tiny") -> dict[str, Any]:
        content: dict[str, Any] = json.loads(
            (self.cwd / "runs" / name / trial / "result.json").read_text()
        )
        return content


@pytest.fixture(scope="module")
def study(
    furnish: Callable[[Path], Path],
    tmp_path_factory: pytest.TempPathFactory,
    joined_ray: JoinedRay,
) -> Study:
    cwd = furnish(tmp_path_factory.mktemp("study"))
    for name in ("sweeps", "tracking", "transformer"):
        (cwd / f"{name}.py").write_text(
            'raise ImportError("a file of the user, which hides none of our packages")'
        )
    blocker = cwd / "runs" / "synthetic-tiny" / "d_dropout_0-s1" / "checkpoints"
    blocker.parent.mkdir(parents=True)
    blocker.write_text("a file where a folder must be")
    words = ["sweep", *SHORT, DEFAULT, THREE_ROWS, *joined_ray.one_by_one]
    first = allelse(*words, cwd=cwd, env=os.environ | joined_ray.environment)
    blocker.unlink()
    return Study(cwd, first)


def test_a_failed_row_is_shown_with_its_cause_and_does_not_stop_the_others(study: Study) -> None:
    assert study.first.returncode == 1, study.first.stdout + study.first.stderr
    assert "2 of 3 finished, 1 FAILED" in study.first.stdout
    assert "d_dropout_0-s1: CheckpointError: cannot write checkpoint" in study.first.stdout
    assert study.first.stdout.splitlines()[-1].startswith("Next: allelse sweep")
    assert "FAILED: CheckpointError" in typed(study.cwd, "table", "--format", "md").stdout
    assert dict(mlflow_runs(study.cwd / "runs"))["D P_drop 0.0 s1"] == "FAILED"


def test_a_repeated_sweep_runs_nothing_and_mlflow_has_one_run_per_trial(study: Study) -> None:
    attempts_before = lines(study.folder / "base-s1" / "attempts.jsonl")
    outcome = typed(study.cwd, "sweep", *SHORT, DEFAULT, TWO_ROWS)
    assert outcome.exit_code == 0, outcome.output
    assert "2 of 2 finished" in outcome.stdout
    assert lines(study.folder / "base-s1" / "attempts.jsonl") == attempts_before
    assert sorted(status for _, status in mlflow_runs(study.cwd / "runs")) == [
        "FAILED",
        "FINISHED",
        "FINISHED",
    ]


def test_a_sweep_writes_the_report_that_the_verb_writes(study: Study) -> None:
    page = study.folder / "report.html"
    assert not page.exists()
    outcome = typed(study.cwd, "sweep", *SHORT, DEFAULT, TWO_ROWS, "--report")
    assert outcome.exit_code == 0, outcome.output
    assert "report.html; open it in a browser" in outcome.stdout
    assert outcome.stdout.splitlines()[-1].startswith("Next: allelse ui")
    from_sweep = page.read_text("utf-8")
    assert typed(study.cwd, "report", DEFAULT).exit_code == 0
    assert page.read_text("utf-8") == from_sweep


def test_the_next_sweep_trains_the_failed_row_scores_the_others_again_and_leaves_an_unreadable_one_alone(
    study: Study,
) -> None:
    result_before = study.result("base-s1")
    journal = (study.folder / "base-s1" / "journal.jsonl").read_text()
    unreadable = study.folder / "e_learned_positions-s1" / "result.json"
    moved = unreadable.rename(unreadable.with_suffix(".kept"))
    unreadable.symlink_to(unreadable.name)  # a link to itself cannot be read
    process = allelse("sweep", "decode.beam=1", cwd=study.cwd)
    assert unreadable.is_symlink()
    moved.replace(unreadable)
    assert process.returncode == 1, process.stdout + process.stderr
    assert "e_learned_positions-s1: result.json cannot be read" in process.stdout
    assert "2 of 3 finished" in process.stdout
    assert len(lines(unreadable.with_name("attempts.jsonl"))) == 2
    assert dict(mlflow_runs(study.cwd / "runs"))["D P_drop 0.0 s1"] == "FINISHED"
    for row in ("base", "d_dropout_0"):
        assert study.result(f"{row}-s1")["scores"]["dev"]["decode"]["beam"] == 1
    result_after = study.result("base-s1")
    assert (result_after["key"], result_after["seconds"], result_after["step"]) == (
        result_before["key"],
        result_before["seconds"],
        result_before["step"],
    )
    assert (study.folder / "base-s1" / "journal.jsonl").read_text() == journal


def test_the_ui_prints_its_address_answers_there_alone_and_ends_quietly(
    study: Study, tmp_path: Path
) -> None:
    with (tmp_path / "ui.log").open("w") as log:
        server = subprocess.Popen(
            command("ui"),
            cwd=study.cwd,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    files_before = sorted(study.cwd.iterdir())
    try:
        assert server.stdout
        match = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert match
        wait_until(lambda: answers(match[0]), "MLflow's page", timeout=240)
        assert _listening(server.pid) == {match[0].removeprefix("http://")}
    finally:
        os.killpg(server.pid, signal.SIGINT)
        assert server.wait(timeout=60) == 0
    assert "Traceback" not in (tmp_path / "ui.log").read_text()
    assert not answers(match[0])
    assert sorted(study.cwd.iterdir()) == files_before, "MLflow left files in the current folder"


def _listening(process: int) -> set[str]:
    """The addresses where the process and its children listen."""
    family = psutil.Process(process).children(recursive=True)
    connections = [connection for member in family for connection in member.net_connections("inet")]
    return {
        f"{connection.laddr.ip}:{connection.laddr.port}"
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
    }


def test_train_runs_the_same_trial_without_ray_and_joins_the_study(study: Study) -> None:
    words = ["row=e_learned_positions", "train.seed=2"]
    assert "allelse train row=e_learned_positions train.seed=2 --add" in refusal(
        study.cwd, "train", *words
    )
    trained = typed(study.cwd, "train", *words, "--add")
    assert trained.exit_code == 0, trained.output
    trials = json.loads((study.folder / "study.json").read_text())["trials"]
    assert ("e_learned_positions", 2) in [(trial["row"], trial["seed"]) for trial in trials]
    assert study.result("e_learned_positions-s2")["step"] == 60
