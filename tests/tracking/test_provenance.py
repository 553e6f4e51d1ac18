"""Where a result comes from: versions, the machine, the commit and its changes, and which attempts
trained."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracking.provenance import (
    changes,
    fields_of_first_cpu,
    generation_in,
    git_state,
    of_process,
    own_version,
    trained_by,
    with_attempt,
)

ROOT = Path(__file__).parents[2]
AMD = """processor\t: 0
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC
stepping\t: 1

processor\t: 1
cpu family\t: 26
"""
ARM = """processor\t: 0
CPU architecture: 8
"""


@pytest.mark.parametrize(
    ("text", "generation"),
    [(AMD, "family 25, model 17, stepping 1"), (ARM, None), ("", None)],
)
def test_the_generation_of_a_cpu_is_read_if_the_system_reports_one(
    text: str, generation: str | None
) -> None:
    assert generation_in(fields_of_first_cpu(text)) == generation


def test_provenance_names_imported_packages_and_imports_none() -> None:
    script = (
        "import json, sys, yaml; from tracking.provenance import of_process; found = of_process();"
        "assert not {'torch', 'ray', 'mlflow'} & set(sys.modules); "
        "print(json.dumps(found['versions']))"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert process.returncode == 0, process.stderr
    assert "PyYAML" in process.stdout
    assert "torch" not in process.stdout
    record = of_process()
    assert record["versions"]["allelse"] == own_version()
    assert record["host"] == socket.gethostname()
    assert record["cpu"]["count"] == os.cpu_count()


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words],
        check=True,
        capture_output=True,
    )


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a folder of a task, committed; git without settings of this user."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "toy.py").write_text("a = 1\n")
    for words in (["init", "--initial-branch", "work"], ["add", "."], ["commit", "-m", "first"]):
        git(tmp_path, *words)
    return tmp_path


def test_the_diff_is_that_of_the_folder_where_the_task_lies(checkout: Path) -> None:
    clean = git_state(checkout / "study")
    assert (clean["branch"], clean["dirty"], clean["changes"], clean["diff"]) == (
        "work",
        False,
        [],
        "",
    )
    (checkout / "elsewhere.py").write_text("")
    assert git_state(checkout / "study") == clean
    (checkout / "study" / "new.py").write_text("")
    (checkout / "study" / "toy.py").write_text('api_key = "hunter2"\n')
    state = git_state(checkout / "study")
    assert (state["commit"], state["dirty"], state["changes"]) == (
        clean["commit"],
        True,
        ["new.py", "toy.py"],
    )
    assert changes(state) == " with changes in new.py, toy.py"
    assert changes({"dirty": True, "changes": list("abcde")}) == " with changes in a, b, c, 2 more"
    assert "-a = 1" in state["diff"]
    assert "hunter2" not in state["diff"]


def test_new_files_may_have_names_beyond_ascii(checkout: Path) -> None:
    (checkout / "study" / "modèle.py").write_text("")
    state = git_state(checkout / "study")
    assert (state["dirty"], state["changes"]) == (True, ["modèle.py"])


def test_what_git_fails_to_tell_is_unknown(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a working tree that is too large, or on slow storage."""
    fails = checkout / "bin" / "git"
    fails.parent.mkdir()
    fails.write_text(
        f'#!/bin/sh\ncase "$*" in *diff*) exit 1;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    fails.chmod(0o755)
    monkeypatch.setenv("PATH", str(fails.parent), prepend=os.pathsep)
    assert git_state(checkout / "study")["dirty"] is None


def test_a_package_in_another_repository_has_no_commit(checkout: Path) -> None:
    installed = checkout / "venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    assert git_state(installed)["commit"] is None


def test_attempts_whose_steps_are_in_the_weights_trained_them() -> None:
    content: dict[str, Any] = {}
    for number, start in enumerate([0, 50, 50, 100], start=1):
        content = with_attempt(
            content, {"attempt": number, "from": start, "steps": 100, "device": f"gpu{number}"}
        )
    assert [attempt["attempt"] for attempt in trained_by(content, 100)] == [1, 3]
    assert content["device"] == "gpu3"  # the fourth only scored
    assert len(content["attempts"]) == 4
    content = with_attempt(content, {"attempt": 5, "from": 100, "of": 2, "steps": 100})
    assert [attempt["attempt"] for attempt in trained_by(content, 100)] == [1, 2]
    assert [attempt["attempt"] for attempt in trained_by(content, 0)] == [5], "it reports no steps"
