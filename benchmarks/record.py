"""The provenance of a run, and its result files."""

import json
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sweeps.problems import Problem, RefusedError
from tracking.files import write_atomic
from tracking.provenance import OUR_CODE, ROOT, changes, git_state, of_process
from tracking.words import time as as_time

RESULTS = Path(__file__).parent / "results"
Result = dict[str, Any]
MEASURED = (*OUR_CODE, "benchmarks", "conf")
"""The folders whose changes count for a measured figure."""


def provenance(module: str, peers: Sequence[str]) -> Result:
    """Commit, machine, versions, date and command. Raises RefusedError if a required peer is not
    installed."""
    missing = [peer for peer in peers if find_spec(peer) is None]
    if missing:
        fault = "is not installed", "`make bench` installs it (extra `bench`)"
        raise RefusedError(Problem(peer, *fault) for peer in missing)
    facts = {**git_state(ROOT, MEASURED), **of_process()}
    versions = {
        name: facts["versions"][name] for name in ("python", "torch") if name in facts["versions"]
    }
    return {
        **{name: facts[name] for name in ("commit", "dirty", "changes", "cpu")},
        "versions": {**versions, **{peer: metadata.version(peer) for peer in peers}},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", module, *map(_of_any_machine, sys.argv[1:])]),
    }


def _of_any_machine(word: str) -> str:
    """A path without this machine's folders: relative to here, or otherwise its last two parts."""
    path = Path(word)
    current_folder = Path.cwd()
    if path.is_absolute() and path.is_relative_to(current_folder):
        return str(path.relative_to(current_folder))
    return str(Path("...", *path.parts[-2:])) if path.is_absolute() or ".." in path.parts else word


def heading(title: str, result: Result) -> list[str]:
    """The title, and everything needed to repeat the run."""
    commit = f"{result['commit']}{changes(result)}"
    versions = ", ".join(
        f"{name} {version}" for name, version in result["versions"].items() if version
    )
    return [
        f"# {title}",
        (
            f"`{result['command']}`, commit {commit}, {result['date']}, "
            f"{as_time(result['seconds'])} in all."
        ),
        (
            f"{result['cpu']['model']}, {result['cpu']['count']} cores, "
            f"one thread unless noted otherwise. {versions}."
        ),
    ]


def write(name: str, document: str, result: Result, only: Sequence[str], folder: Path) -> Path:
    """Write the result as Markdown and JSON under one name; returns the Markdown's path. A result
    of the same day and commit is replaced only if its command is the same."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [name, result["date"][:10], str(result["commit"])[:7], *only]
    stem = "-".join(parts)
    number = 1
    while _is_of_another_command(folder / f"{stem}.json", result):
        number += 1
        stem = "-".join([*parts, f"run{number}"])
    path = folder / f"{stem}.md"
    write_atomic(path, document)
    write_atomic(folder / f"{stem}.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return path


def _is_of_another_command(path: Path, result: Result) -> bool:
    """Whether the file has a result of other options."""
    if not path.exists():
        return False
    return bool(json.loads(path.read_text("utf-8"))["command"] != result["command"])
