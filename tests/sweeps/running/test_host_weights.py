"""Rows that only score, after the weights of their hosts have changed, and what they see of the
training."""

import errno
import io
import json
import math
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scored_task import SOURCE, write_scored
from typed import printed, refusal, typed

from allelse import load
from sweeps.planning.continuation import plan_sweep
from sweeps.processes.events import Finished, Order, Started
from sweeps.running.progress import Progress
from sweeps.running.queue import Queue
from sweeps.running.recording.recorder import Recorder
from sweeps.running.stopping import Stopping
from tracking.attempts import Lineage

STUDY = ("task=scored", "sweep.name=s")
TRAIN = ("train", *STUDY, "tracking=off")
TRAINS = "total = trial.saved.state if trial.saved else 0.1 * trial.seed\n"
LUCKY = TRAINS.replace("seed\n", 'seed + float((HERE / "luck").read_text())\n')
SCORES = "weights / (config.score.beam + place)}"
SAMPLED = f'{SCORES}, samples=[{{"x": 1.0}}]'
STARTS = "    config = trial.config\n    if (HERE"
READS = """    config = trial.config
    if trial.saved is None:
        (trial.folder / "words").write_text("as trained")
    log("read", (trial.folder / "words").read_text())
    (trial.folder / "words").write_text("changed by the work")
    if (HERE"""


@pytest.fixture(scope="module")
def _untrained(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    folder = write_scored(tmp_path_factory.mktemp("untrained"))
    (folder / "runs").mkdir()
    shutil.copy(database, folder / "runs")
    (folder / "luck").write_text("0")
    (folder / "scored.py").write_text(SOURCE.replace(TRAINS, LUCKY), "utf-8")
    return folder


@pytest.fixture(scope="module")
def _with_base(tmp_path_factory: pytest.TempPathFactory, _untrained: Path) -> Path:
    folder = Path(shutil.copytree(_untrained, tmp_path_factory.mktemp("base") / "here"))
    train(folder, "base")
    return folder


@pytest.fixture(scope="module")
def _with_greedy(tmp_path_factory: pytest.TempPathFactory, _with_base: Path) -> Path:
    folder = Path(shutil.copytree(_with_base, tmp_path_factory.mktemp("greedy") / "here"))
    train(folder, "greedy")
    return folder


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def folder(tmp_path: Path, _untrained: Path) -> Path:
    """A task whose weights hold the luck in a file."""
    return Path(shutil.copytree(_untrained, tmp_path / "here"))


@pytest.fixture
def with_base(tmp_path: Path, _with_base: Path) -> Path:
    """The same, moved to another place after base was trained."""
    return Path(shutil.copytree(_with_base, tmp_path / "here"))


@pytest.fixture
def with_greedy(tmp_path: Path, _with_greedy: Path) -> Path:
    """The same, where the row that scores base's weights was scored, too."""
    return Path(shutil.copytree(_with_greedy, tmp_path / "here"))


def edit(folder: Path, old: str, new: str) -> None:
    source = (folder / "scored.py").read_text("utf-8")
    assert old in source
    (folder / "scored.py").write_text(source.replace(old, new), "utf-8")


def train(folder: Path, *rows: str) -> None:
    for row in rows:
        printed(folder, *TRAIN, f"row={row}", *(() if row == "base" else ("--add",)))


def result(folder: Path, trial: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (folder / "runs/s" / trial / "result.json").read_text("utf-8")
    )
    return content


def score(folder: Path, trial: str) -> float:
    return float(result(folder, trial)["scores"]["dev"]["score"])


def table_row(folder: Path, row: str) -> str:
    """The row as a table for other programs has it."""
    lines = printed(folder, "table", "sweep.name=s", "--format", "csv").splitlines()
    return next(line for line in lines if line.startswith(f"{row},"))


def state(folder: Path, row: str) -> str:
    lines = json.loads(printed(folder, "status", "sweep.name=s", "--json"))
    return next(str(line["state"]) for line in lines if line["row"] == row)


def train_base_anew(folder: Path) -> None:
    """In the lineage that it has: its folder and its attempts stay."""
    shutil.rmtree(folder / "runs/s/base-s1/checkpoints")
    (folder / "runs/s/base-s1/result.json").unlink()
    (folder / "luck").write_text("5")
    train(folder, "base")


def drop_and_train_big_anew(folder: Path) -> None:
    """With another lineage. The row that scores it comes back from the trash."""
    printed(folder, "drop", "big_greedy", "sweep.name=s", "-y")
    (trash,) = (folder / "runs/.trash").iterdir()
    printed(folder, "drop", "big", "sweep.name=s", "-y")
    (folder / "luck").write_text("5")
    train(folder, "big")
    printed(folder, "restore", trash.name)


CASES = pytest.mark.parametrize(
    ("host", "row", "change"),
    [("base", "greedy", train_base_anew), ("big", "big_greedy", drop_and_train_big_anew)],
)


@CASES
def test_other_weights_of_the_host_are_scored_and_no_old_score_is_shown(
    folder: Path, host: str, row: str, change: Callable[[Path], None]
) -> None:
    edit(folder, SCORES, SAMPLED)
    train(folder, *dict.fromkeys(("base", host, row)))
    score_before = score(folder, f"{row}-s1")
    assert str(score_before)[:8] in table_row(folder, row)

    change(folder)
    assert score(folder, f"{row}-s1") == score_before
    assert "to score again" in table_row(folder, row)
    assert str(score_before)[:8] not in table_row(folder, row)
    assert state(folder, row) == "to score again"
    frames = load(folder / "runs/s")
    assert (
        dict(zip(frames.trials["row"], frames.trials["state"], strict=True))[row]
        == "to score again"
    )
    assert row not in set(frames.scores["row"])
    assert str(score_before)[:8] not in typed(folder, "compare", row, host, "sweep.name=s").output
    planned = json.loads(printed(folder, "plan", *STUDY, "--json"))
    assert {trial["row"]: trial["finished"] for trial in planned}[row] is False

    printed(folder, *TRAIN, f"row={row}")
    assert score(folder, f"{row}-s1") == score(folder, f"{host}-s1") * 4 != score_before
    assert result(folder, f"{row}-s1")["weights"] == result(folder, f"{host}-s1")["weights"]
    assert state(folder, row) == "finished"


def test_a_host_that_is_only_scored_again_keeps_the_scores_of_its_rows(with_greedy: Path) -> None:
    (with_greedy / "runs/s/base-s1/result.json").unlink()
    assert state(with_greedy, "greedy") == "to score again", "nobody knows what its weights are"
    train(with_greedy, "base")
    assert (
        result(with_greedy, "base-s1")["attempt"],
        result(with_greedy, "base-s1")["weights"]["attempt"],
    ) == (2, 1)
    assert state(with_greedy, "greedy") == "finished"


def test_evaluate_scores_anew_what_was_trained_anew(with_base: Path) -> None:
    words = ("evaluate", "task=scored", "base", "score.beam=2", "sweep.name=s", "--json")
    first = json.loads(printed(with_base, *words))
    train_base_anew(with_base)
    second = json.loads(printed(with_base, *words))
    assert [line["now"] for line in second] == [True, True]
    assert second[0]["score"] == score(with_base, "base-s1") * 2 != first[0]["score"]
    assert [line["now"] for line in json.loads(printed(with_base, *words))] == [False, False]


def test_evaluate_scores_a_row_that_is_to_score_again(with_base: Path) -> None:
    train(with_base, "greedy")
    train_base_anew(with_base)
    lines = json.loads(
        printed(with_base, "evaluate", "task=scored", "greedy", "sweep.name=s", "--json")
    )
    assert [line["now"] for line in lines] == [True, True], "both sets"
    assert lines[0]["score"] == score(with_base, "base-s1") * 4
    assert state(with_base, "greedy") == "finished"


def test_a_record_of_an_earlier_version_is_scored_until_its_host_is_trained_anew(
    with_base: Path,
) -> None:
    path = with_base / "runs/s/base-s1/result.json"
    earlier_result = {
        name: value for name, value in result(with_base, "base-s1").items() if name != "weights"
    }
    path.write_text(json.dumps(earlier_result))
    train(with_base, "greedy")
    assert state(with_base, "greedy") == "finished"
    train_base_anew(with_base)
    assert state(with_base, "greedy") == "to score again"


def newest_scores(folder: Path) -> dict[str, float]:
    query = """
        SELECT tags.value, latest_metrics.value, latest_metrics.is_nan FROM latest_metrics JOIN runs USING (run_uuid)
        JOIN tags USING (run_uuid) WHERE latest_metrics.key = 'final/score' AND tags.key = 'row'
        AND runs.lifecycle_stage = 'active'
    """
    with closing(sqlite3.connect(folder / "runs/mlflow.db")) as opened:
        return {row: math.nan if is_nan else value for row, value, is_nan in opened.execute(query)}


def test_mlflow_shows_no_score_of_other_weights(with_greedy: Path) -> None:
    printed(with_greedy, "sync", "sweep.name=s")
    assert newest_scores(with_greedy)["greedy"] == score(with_greedy, "greedy-s1")
    train_base_anew(with_greedy)
    printed(with_greedy, "sync", "sweep.name=s")
    assert math.isnan(newest_scores(with_greedy)["greedy"])
    train(with_greedy, "greedy")
    printed(with_greedy, "sync", "sweep.name=s")
    assert newest_scores(with_greedy)["greedy"] == score(with_greedy, "greedy-s1")


ROW = "# @package _global_\ndefaults: [both, _self_]\nrow: {group: B}\nscore: {beam: 1}\n"


def test_a_row_is_unlike_the_others_as_its_host_is(folder: Path) -> None:
    (folder / "conf/task/scored/row/both_greedy.yaml").write_text(ROW, "utf-8")
    train(folder, "base", "big")
    edit(folder, "import time\n", "import time  # edited\n")
    printed(folder, *TRAIN, "row=both", "--add", "--changed-code")
    train(folder, "both_greedy", "big_greedy")
    provenance = json.loads((folder / "runs/s/big_greedy-s1/provenance.json").read_text("utf-8"))
    assert [record["from"] for record in provenance["attempts"]] == [5], "it has trained nothing"
    table = " ".join(printed(folder, "table", "sweep.name=s").split())
    assert unlike_rows(table, "code") == "both, both_greedy"
    assert unlike_rows(table, "code of scoring") == "big_greedy"


def unlike_rows(table: str, part: str) -> str:
    lines = re.search(rf"[:;] {part} \w+ \(scored.py changed\), not \w+: ([\w, ]+)[.;]", table)
    return lines[1] if lines else ""


def test_rows_that_one_version_trained_and_another_one_scored_are_alike(with_greedy: Path) -> None:
    edit(with_greedy, "import time\n", "import time  # edited\n")
    for row in ("base", "greedy"):
        (with_greedy / f"runs/s/{row}-s1/result.json").unlink()
        printed(with_greedy, *TRAIN, f"row={row}", "--changed-code")
    assert "‡" not in printed(with_greedy, "table", "sweep.name=s")


def test_the_work_reads_what_training_left_in_its_folder_and_cannot_change_it(folder: Path) -> None:
    edit(folder, STARTS, READS)
    train(folder, "base")
    (folder / "read").unlink()
    (words,) = (folder / "runs/s/base-s1/checkpoints").glob("*/files/words")
    words.write_text("as trained")
    train(folder, "greedy")
    printed(folder, "evaluate", "task=scored", "base", "score.beam=2", "sweep.name=s")
    assert (folder / "read").read_text().splitlines() == ["as trained"] * 2
    assert words.read_text() == "as trained"


def test_without_the_result_of_its_host_a_row_is_not_trained(
    with_greedy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(with_greedy)
    plan = plan_sweep([*STUDY, "score.beam=3"], here=with_greedy)
    (row,) = [planned for planned in plan.trials if planned.trial.row == "greedy"]
    recorder = Recorder(row)
    assignment = recorder.assignment()
    assert assignment.weights is not None
    assert assignment.weights.record == result(with_greedy, "base-s1")["weights"]

    (with_greedy / "runs/s/base-s1/result.json").unlink()
    progress = Progress(plan, Console(file=io.StringIO()))
    queue = Queue({row.trial.name: recorder}, progress, Stopping(), 0)
    orders = list[Order]()
    queue.start("its process", orders.append)
    assert [order.assignment for order in orders] == [None]
    assert "base-s1 no longer has a result" in row.folder.path.joinpath("error.txt").read_text()
    assert (row.folder.attempts.all()[-1].reason or "").startswith("failed: base-s1")


class Away:
    """Storage that is away for one call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sweeps.processes.storage.STORAGE_PAUSE_S", 0.0)
        self.calls = 0

    def fail_once(self, path: Path) -> None:
        self.calls += 1
        if self.calls == 1:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))


def test_a_row_waits_for_storage_with_the_result_of_its_host(
    with_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(with_base)
    words = [*STUDY, "sweep.rows=[base,greedy]", "sweep.seeds=[1]"]
    plan = plan_sweep(words, add=True, here=with_base)
    (row,) = plan.pending
    storage = Away(monkeypatch)
    read_bytes = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.parts[-2:] == ("base-s1", "result.json"):
            storage.fail_once(path)
        return read_bytes(path)

    output = io.StringIO()
    progress = Progress(plan, Console(file=output))
    queue = Queue({row.trial.name: Recorder(row)}, progress, Stopping(), 0)
    orders = list[Order]()
    monkeypatch.setattr(Path, "read_bytes", read)
    queue.start("its process", orders.append)
    assert [order.assignment is not None for order in orders] == [True]
    assert output.getvalue().count("trying again") == 1


def test_a_row_waits_for_storage_with_the_checkpoints_of_its_host(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    plan = plan_sweep([*STUDY, "sweep.rows=[base,greedy]", "sweep.seeds=[1]"], here=folder)
    storage = Away(monkeypatch)

    def saved_steps(url: str, key: str, lineage: Lineage) -> set[int]:
        storage.fail_once(Path(url))
        return {5}

    output = io.StringIO()
    progress = Progress(plan, Console(file=output))
    recorders = {planned.name: Recorder(planned) for planned in plan.pending}
    queue = Queue(recorders, progress, Stopping(), 0, {"greedy-s1": "base-s1"})
    queue.start("its process", list[Order]().append)
    monkeypatch.setattr("sweeps.preflight.scored_steps.saved_steps", saved_steps)
    scores = {name: {"score": 1.0, "decode": {}} for name in ("dev", "test")}
    costs = {"params": 1, "flops": None, "seconds": 1.0}
    queue.take("its process", 1, [Started("cpu"), Finished(5, costs, scores)])
    assert queue.waiting == 1
    assert output.getvalue().count("trying again") == 1


def test_evaluate_names_the_host_whose_weights_a_row_scores(with_greedy: Path) -> None:
    shutil.rmtree(with_greedy / "runs/s/base-s1/checkpoints")
    words = ("evaluate", "task=scored", "greedy", "score.beam=2", "sweep.name=s")
    assert "s/greedy-s1 scores the weights of s/base-s1, which has no checkpoint" in refusal(
        with_greedy, *words
    )
    (with_greedy / "runs/s/base-s1/result.json").unlink()
    words_by_folder = (*words[:2], str(with_greedy / "runs/s/greedy-s1"), *words[3:])
    assert "base-s1 is interrupted" in refusal(with_greedy, *words_by_folder)
