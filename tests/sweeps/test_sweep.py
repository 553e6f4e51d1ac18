"""The life of one small study: run, run again, evaluated again, extended, and with a row that fails."""

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_text import TEXT
from studies import SMALL, ablate, command, lines, mlflow_runs, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SHORT = [*SMALL, *TEXT, "train.steps=60", "train.checkpoint_every=30"]
DEFAULT = "sweep.name=synthetic-tiny"
"""The name that commands without words mean."""
SCORED_AGAIN = [*(word for word in SHORT if not word.startswith("decode.beam")), "decode.beam=1"]
TWO_ROWS = "sweep.rows=[base,e_learned_positions]"
RESULT_KEYS = {"key", "row", "seed", "step", "attempt", "params", "flops", "seconds", "tokens_per_s", "pairs", "scores"}
SCORE_KEYS = {"nll", "ppl", "bleu", "chrf", "bleu_paper", "decode"}
SIGNATURES = {"signature", "bleu_paper_signature", "chrf_signature"}


class Study:
    """The folder where every command runs, and the output of the first one."""

    def __init__(self, cwd: Path, first: subprocess.CompletedProcess[str]) -> None:
        self.cwd, self.first = cwd, first
        self.folder = cwd / "runs" / "synthetic-tiny"

    def result(self, trial: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / trial / "result.json").read_text())
        return content


@pytest.fixture(scope="module")
def study(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Study:
    cwd = furnish(tmp_path_factory.mktemp("study"))
    return Study(cwd, ablate("sweep", *SHORT, DEFAULT, TWO_ROWS, cwd=cwd))


def test_every_row_finishes_and_the_table_and_the_next_command_are_printed(study: Study) -> None:
    assert study.first.returncode == 0, study.first.stdout + study.first.stderr
    assert "2 of 2 finished" in study.first.stdout
    assert study.first.stdout.strip().splitlines()[-1].startswith("Next: ablate ui")
    assert study.first.stderr == ""


def test_a_trial_folder_holds_the_files_of_the_contract(study: Study) -> None:
    trial, result = study.folder / "base-s1", study.result("base-s1")
    assert set(result) == RESULT_KEYS
    assert set(result["scores"]) == {"dev", "test"}
    assert all(set(scores) == SCORE_KEYS | SIGNATURES for scores in result["scores"].values())
    assert [line["attempt"] for line in lines(trial / "attempts.jsonl")] == [1, 1]
    assert len((trial / "hypotheses" / "dev.txt").read_text().splitlines()) == 6
    assert len(lines(trial / "statistics" / "dev.jsonl")) == 1 + 6
    assert {"commit", "dirty"} <= set(json.loads((trial / "provenance.json").read_text()))
    kept = sorted(str(path.relative_to(trial)) for path in trial.glob("checkpoints/*/a*/*"))
    assert kept == [f"checkpoints/{result['key'][:16]}/a1/step-{step}" for step in (30, 60)]
    assert json.loads((study.folder / "study.json").read_text())["trials"][0]["key"] == result["key"]


def test_a_repeated_sweep_runs_nothing_and_mlflow_has_one_run_per_trial(study: Study) -> None:
    before = lines(study.folder / "base-s1" / "attempts.jsonl")
    again = ablate("sweep", *SHORT, DEFAULT, TWO_ROWS, cwd=study.cwd)
    assert again.returncode == 0
    assert "2 of 2 finished" in again.stdout
    assert lines(study.folder / "base-s1" / "attempts.jsonl") == before
    assert [status for _, status in mlflow_runs(study.cwd / "runs")] == ["FINISHED", "FINISHED"]


def test_other_decode_settings_only_evaluate_again(study: Study) -> None:
    before, journal = study.result("base-s1"), (study.folder / "base-s1" / "journal.jsonl").read_text()
    again = ablate("sweep", *SCORED_AGAIN, DEFAULT, "sweep.rows=[base]", cwd=study.cwd)
    assert again.returncode == 0, again.stdout + again.stderr
    after, other = study.result("base-s1"), study.result("e_learned_positions-s1")
    assert other["scores"]["dev"]["decode"]["beam"] == 1, "a table never mixes settings"
    assert after["scores"]["dev"]["decode"]["beam"] == 1
    assert (after["key"], after["seconds"], after["step"]) == (before["key"], before["seconds"], before["step"])
    assert (study.folder / "base-s1" / "journal.jsonl").read_text() == journal


def test_a_failed_row_is_shown_with_its_cause_and_does_not_stop_the_others(study: Study) -> None:
    blocked = study.folder / "d_dropout_0-s1" / "checkpoints"
    blocked.parent.mkdir()
    blocked.write_text("a file where a folder must be")
    words = ["sweep.rows=[d_dropout_0,d_smoothing_0]", "--add"]
    failed = ablate("sweep", *words, cwd=study.cwd)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "1 of 2 finished, 1 FAILED" in failed.stdout
    assert "d_dropout_0-s1: CheckpointError: cannot write checkpoint" in failed.stdout
    assert failed.stdout.splitlines()[-1] == "Next: ablate sweep 'sweep.rows=[d_dropout_0,d_smoothing_0]'"
    table = ablate("table", "--format", "md", cwd=study.cwd).stdout
    assert "FAILED: CheckpointError" in table
    assert dict(mlflow_runs(study.cwd / "runs"))["D d_dropout_0 s1"] == "FAILED"

    blocked.unlink()
    repaired = ablate("sweep", cwd=study.cwd)
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert dict(mlflow_runs(study.cwd / "runs"))["D d_dropout_0 s1"] == "FINISHED"
    rows = json.loads(ablate("table", "--format", "json", cwd=study.cwd).stdout)
    assert [row["row"] for row in rows] == ["base", "d_dropout_0", "d_smoothing_0", "e_learned_positions"]


def test_a_reader_that_leaves_does_not_end_the_sweep(study: Study) -> None:
    words = " ".join(command("sweep", *SHORT, "sweep.rows=[base]", "sweep.name=unread"))
    script = f"{{ {words}; echo $? > code; }} | head -1"
    done = subprocess.run(
        ["bash", "-c", script], cwd=study.cwd, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout == "unread: 1 of 1 trials to run\n"
    wait_until((study.cwd / "code").exists, "the sweep's end", timeout=300)
    assert (study.cwd / "code").read_text() == "0\n"
    assert (study.cwd / "runs" / "unread" / "base-s1" / "result.json").is_file()


def test_the_ui_prints_its_address_answers_there_and_ends_quietly(study: Study) -> None:
    with (study.cwd / "ui.log").open("w") as log:
        server = subprocess.Popen(
            command("ui"), cwd=study.cwd, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        assert server.stdout
        found = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert found
        wait_until(lambda: _answers(found[0]), "MLflow's page", timeout=240)
    finally:
        os.killpg(server.pid, signal.SIGINT)
        assert server.wait(timeout=60) == 0
    assert "Traceback" not in (study.cwd / "ui.log").read_text()
    assert not _answers(found[0])


def test_a_run_missing_from_mlflow_is_reported(study: Study) -> None:
    words = [*SHORT, "train.steps=2", "sweep.name=uncarried", "tracking.uri=http://127.0.0.1:9"]
    done = ablate("train", *words, cwd=study.cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MLflow is not up to date; run `ablate sync`" in done.stdout


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return response.status == 200 and b"MLflow" in response.read()
    except OSError:
        return False


def test_train_runs_the_same_trial_without_ray_and_joins_the_study(study: Study) -> None:
    words = ["row=e_learned_positions", "train.seed=2"]
    refused = ablate("train", *words, cwd=study.cwd)
    assert (refused.returncode, "ablate train row=e_learned_positions train.seed=2 --add" in refused.stderr) == (
        2,
        True,
    )
    trained = ablate("train", *words, "--add", cwd=study.cwd)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    trials = json.loads((study.folder / "study.json").read_text())["trials"]
    assert ("e_learned_positions", 2) in [(trial["row"], trial["seed"]) for trial in trials]
    assert set(study.result("e_learned_positions-s2")) == RESULT_KEYS


def test_two_workers_train_what_one_does(study: Study) -> None:
    """Dropout draws differ between workers, so it is off; what remains is the order of sums.

    That is 1e-7 for some twenty steps; then the trajectories part, as any two with different rounding do.
    """
    alike = [*SHORT, "train.steps=20", "model.p_drop=0"]
    for verb, name, workers in (("train", "one", 1), ("sweep", "two", 2)):
        rows = ["sweep.rows=[base]"] * (verb == "sweep")
        done = ablate(verb, *alike, *rows, f"sweep.name={name}", f"cluster.workers={workers}", cwd=study.cwd)
        assert done.returncode == 0, done.stdout + done.stderr
    one, two = (
        json.loads((study.cwd / "runs" / name / "base-s1" / "result.json").read_text()) for name in ("one", "two")
    )
    assert one["key"] == two["key"]
    assert two["scores"]["dev"]["nll"] == pytest.approx(one["scores"]["dev"]["nll"], rel=1e-6)
