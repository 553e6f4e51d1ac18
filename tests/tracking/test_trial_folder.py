import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies_on_disk import begin, finish, report

from tracking.process import CLOCK_SLACK, is_alive
from tracking.study import Study, StudyMissing, read_study, write_study
from tracking.trial_folder import TrialFolder


def steps(folder: TrialFolder) -> list[int]:
    return [line.step for line in folder.journal()]


def test_attempts_are_numbered_and_a_lost_one_is_closed(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    folder.begin_attempt(1, "node1", 11)
    folder.begin_attempt(2, "node2", 22)
    folder.end_attempt(2, "failed")
    first, second = folder.attempts()
    assert (first.host, first.pid, first.reason) == ("node1", 11, "lost")
    assert second.ended is not None
    assert (second.number, second.reason) == (2, "failed")
    assert second.began <= second.ended
    lines = [json.loads(line) for line in folder.attempts_path.read_text().splitlines()]
    assert [set(line) for line in lines[:2]] == [
        {"attempt", "ts", "host", "pid"},
        {"attempt", "ts", "end", "reason"},
    ]


def test_a_new_attempt_removes_the_previous_error(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    folder.write_error("boom")
    begin(folder)
    assert folder.error() is None


def test_reports_of_older_attempts_and_of_earlier_steps_are_dropped(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    assert not folder.report(1, 1, {"loss": 1.0}), "no attempt has begun"
    first = begin(folder)
    assert folder.report(first, 5, {"loss": 1.0}, ts=12.5)
    assert not folder.report(first, 5, {"loss": 2.0})
    assert not folder.report(first, 4, {"loss": 2.0})
    second = begin(folder)
    assert not folder.report(first, 6, {"loss": 3.0})
    assert folder.report(second, 6, {"loss": 4.0}, checkpoint=6)
    assert [(line.attempt, line.step, line.metrics) for line in folder.journal()] == [
        (1, 5, {"loss": 1.0}),
        (2, 6, {"loss": 4.0}),
    ]
    assert folder.journal()[0].ts == 12.5


def test_a_metric_that_is_not_finite_is_counted_not_written(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    attempt = begin(folder)
    folder.report(attempt, 1, {"loss": float("nan"), "ppl": float("inf"), "lr": 0.1})
    assert folder.journal()[0].metrics == {"lr": 0.1, "nonfinite": 2.0}


def test_after_restore_and_resume_each_step_appears_once(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    folder.restore(1, 3, [])
    assert not folder.journal_path.exists()
    report(folder, begin(folder), range(1, 8), checkpoints=(4,))
    folder.restore(2, 4, [])
    assert steps(folder) == [1, 2, 3, 4]
    report(folder, begin(folder), range(5, 10))
    assert steps(folder) == list(range(1, 10))
    assert [line.attempt for line in folder.journal()] == [1] * 4 + [2] * 5


def test_reports_that_never_arrived_are_filled_in_from_the_history(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    report(folder, begin(folder), range(1, 5))
    written = folder.journal()
    history = [(100.0 + step, step, {"loss": 7.0, "ppl": float("inf")}, None) for step in range(1, 7)]
    folder.restore(2, 6, history)
    assert steps(folder) == [1, 2, 3, 4, 5, 6]
    assert folder.journal()[:4] == written, "written lines may be in MLflow already, and stay"
    last = folder.journal()[-1]
    assert (last.ts, last.attempt, last.metrics) == (106.0, 2, {"loss": 7.0, "nonfinite": 1.0})


def test_a_lost_journal_is_restored_from_the_history(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    folder.restore(2, 3, [(float(step), step, {"loss": 1.0}, None) for step in (1, 2, 3)])
    assert steps(folder) == [1, 2, 3]


def test_hypotheses_stay_aligned_with_their_sources(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    folder.write_hypotheses("dev", ["ein Hund", "zwei\nZeilen", ""])
    assert folder.hypotheses_path("dev").read_text() == "ein Hund\nzwei Zeilen\n\n"


def test_states(study: Study, folder: TrialFolder) -> None:
    trial = study.trials[0]
    assert folder.state(trial.key) == "missing"
    attempt = begin(folder)
    assert folder.state(trial.key) == "running"
    folder.end_attempt(attempt, "interrupted")
    assert folder.state(trial.key) == "interrupted"
    folder.write_error("boom")
    assert folder.state(trial.key) == "failed"
    attempt = begin(folder)
    assert folder.state(trial.key) == "running"
    finish(study, trial, attempt, 3)
    assert folder.state(trial.key) == folder.state() == "finished"
    assert folder.state("another key") == "interrupted"


def test_an_attempt_of_a_dead_process_or_another_host_is_interrupted(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    folder = TrialFolder(tmp_path)
    folder.begin_attempt(1, socket.gethostname(), child.pid)
    assert folder.state() == "interrupted", "a zombie"
    child.wait()
    assert folder.state() == "interrupted"
    folder.begin_attempt(2, "elsewhere", os.getpid())
    assert folder.state() == "interrupted"


def test_the_pid_of_a_younger_process_is_not_the_attempt() -> None:
    assert is_alive(os.getpid(), time.time())
    assert not is_alive(os.getpid(), time.time() - 10 * CLOCK_SLACK)


def test_a_study_reads_back_as_written(study: Study) -> None:
    row = {"row": "base", "group": "base", "published": {}, "values": {}}
    chosen: dict[str, dict[str, Any]] = {"options": {"scale": "tiny"}, "values": {"train.steps": 7}}
    study = replace(study, settings={"train": {"steps": 7}}, rows=(row,), seeds=(1, 2), chosen=chosen)
    write_study(study)
    assert read_study(study.folder) == study
    content = json.loads((study.folder / "study.json").read_text())
    assert set(content) == {"name", "task", "settings", "rows", "seeds", "chosen", "trials", "cells", "asked"}
    assert set(content["trials"][0]) == {"row", "group", "change", "seed", "key", "published"}
    assert study.trials[1].name == "a_heads_1-s1"
    assert study.trial_folder(study.trials[1]).path == study.folder / "a_heads_1-s1"


def test_a_missing_study_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyMissing, match=str(tmp_path)):
        read_study(tmp_path)


WHOLE = b'{"trials": [], "cells": {}, "asked": [], '
DAMAGED = [
    *(WHOLE + part + b"}" for part in (b'"settings": {"train": 3}', b'"rows": [{"row": "base"}]', b'"chosen": [1]')),
    *(WHOLE + b'"task": ' + task + b"}" for task in (b"1", b"{}", b'{"name": "t", "version": 1, "metrics": []}')),
    *[b'{"trials": [{}]}', b'{"trials', b'{"\xff": 1}', b"", b"[]", b'{"trials": [], "cells": null, "asked": []}'],
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_study_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "study.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"study\.json: not a study"):
        read_study(tmp_path)


def test_no_other_process_writes_under_an_attempt(folder: TrialFolder) -> None:
    """Where locks do not hold, a sweep may come back while another one runs its trial."""
    folder.begin_attempt(1, "node1", 11, "a-11-1")
    folder.begin_attempt(1, "node1", 11, "a-11-1")  # repeated after an error of the storage
    folder.check_running(1, "node1", 11, "a-11-1")
    with pytest.raises(OSError, match="pid 11 on node1 has begun attempt 1, so this process ends"):
        folder.begin_attempt(1, "node2", 22, "b-22-1")
    folder.begin_attempt(2, "node2", 22, "b-22-1")
    with pytest.raises(OSError, match="pid 22 on node2 has begun attempt 2, so this process ends"):
        folder.check_running(1, "node1", 11, "a-11-1")
    assert [attempt.number for attempt in folder.attempts()] == [1, 2]
