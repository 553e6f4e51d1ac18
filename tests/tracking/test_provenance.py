"""Where a result comes from: versions, the machine, the commit and its changes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tracking.provenance import PACKAGES, _git_state, collect, own_version

ROOT = Path(__file__).parents[2]


def test_provenance_names_versions_without_importing_them() -> None:
    script = (
        "import json, sys; from tracking.provenance import collect; found = collect('cpu', 'abc');"
        "assert not {'torch', 'ray', 'mlflow'} & set(sys.modules); print(json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    found = collect("cuda H200", "abc")
    assert (found["device"], found["data_fingerprint"]) == ("cuda H200", "abc")
    assert set(found["versions"]) == {"python", *PACKAGES}
    assert found["versions"]["mlflow"] == "3.17.2"
    assert found["versions"]["allelse"] == own_version()
    assert found["host"] == socket.gethostname()
    assert found["cpu"]["count"] == os.cpu_count()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one file of ours, committed; git without settings of this user."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    (tmp_path / "tracking").mkdir()
    (tmp_path / "tracking" / "provenance.py").write_text("")
    for words in (["init"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("notes.txt", []),
        ("conf/row/mine.yaml", []),
        ("tests/new.py", []),
        ("tracking/new.py", ["tracking/new.py"]),
        ("tracking/provenance.py", ["tracking/provenance.py"]),
        ("transformer/model/new.py", ["transformer/model/new.py"]),
    ],
)
def test_only_files_that_make_a_result_count_as_changes(checkout: Path, path: str, changes: list[str]) -> None:
    commit, found = _git_state(checkout / "tracking" / "provenance.py")
    assert (len(commit or ""), found) == (40, [])
    (checkout / path).parent.mkdir(parents=True, exist_ok=True)
    (checkout / path).write_text("1\n")
    assert _git_state(checkout / "tracking" / "provenance.py") == (commit, changes)
    subprocess.run(["git", "-C", str(checkout), "add", "."], check=True)
    assert _git_state(checkout / "tracking" / "provenance.py") == (commit, changes)


def test_a_package_in_another_repository_has_no_commit(checkout: Path) -> None:
    installed = checkout / "venv" / "tracking" / "provenance.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("")
    assert _git_state(installed) == (None, None)
