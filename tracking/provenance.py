"""Where a result comes from: one record of each attempt at a trial and of each scoring, and none is
ever replaced.

``provenance.json`` has them as ``attempts`` and ``scorings``. The fields of the last attempt that
trained are also at its top level, for a reader who wants one answer.
"""

import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from tracking.source_trial import SOURCE
from tracking.uri import diff_without_secrets, shown_words
from tracking.words import shell_line

DISTRIBUTION = "allelse"
OUR_CODE = ("allelse", "sweeps", "tracking", "transformer")
"""The packages whose code decides a result. Rows and other settings are recorded with the trial."""
ROOT = Path(__file__).parents[1]
"""The folder of these packages: a checkout, or that of installed packages."""
SHOWN = 3
"""How many changed files are named in a sentence."""
MOST_DIFF = 1 << 20
"""Bytes of a diff that are kept."""
Provenance = dict[str, Any]


def of_process() -> Provenance:
    """What this process computes with: its machine, and the version of every package that it has
    imported so far."""
    cpu = {"model": cpu_model(), "count": os.cpu_count()}
    machine = {"ts": time.time(), "host": socket.gethostname(), "cpu": cpu}
    return machine | {"versions": versions(), "own_files": own_files()}


def versions() -> dict[str, str | None]:
    """By the name of the package as it is installed."""
    known = _distributions()
    names = {name.partition(".")[0] for name in list(sys.modules)}
    imported = {each: _version(each) for name in names for each in known.get(name, ())}
    return {
        "python": platform.python_version(),
        DISTRIBUTION: own_version(),
        **dict(sorted(imported.items())),
    }


def of_sweep(folder: Path, code: Sequence[str] = (".",)) -> Provenance:
    """What holds for all attempts of a sweep: the commit, branch and changes of the folder where
    the task lies."""
    command = shell_line(shown_words([sys.executable, *sys.argv]))
    return {**git_state(folder, code), "driver": socket.gethostname(), "command": command}


@cache
def own_files() -> str:
    """SHA-256 of our own Python files, as they lay on disk when this process first asked: at its
    start."""
    whole = sha256()
    for file in sorted(
        path for name in OUR_CODE for path in (ROOT / name).rglob("*.py") if path.is_file()
    ):
        whole.update(
            f"{file.relative_to(ROOT).as_posix()}\0".encode() + sha256(file.read_bytes()).digest()
        )
    return whole.hexdigest()


def git_state(folder: Path, code: Sequence[str] = (".",)) -> Provenance:
    """Commit, branch and uncommitted changes, all None or empty outside of a repository; so is what
    git cannot tell.

    A package installed inside another project must not get that project's commit.
    """
    commit = None if "site-packages" in folder.parts else _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {"commit": None, "branch": None, "dirty": None, "changes": None, "diff": ""}
    changed = _git(folder, "diff", "--name-only", "--relative", "HEAD", "--", *code)
    added = _git(folder, "ls-files", "--others", "--exclude-standard", "--", *code)
    known = changed is not None and added is not None
    new = [name for name in (added or "").splitlines() if name.endswith(".py")]
    names = sorted({*(changed or "").splitlines(), *new})
    text = diff_without_secrets(_git(folder, "diff", "--relative", "HEAD", "--", *code) or "")
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    kept = text.encode()[:MOST_DIFF].decode("utf-8", "ignore")
    return {
        "commit": commit,
        "branch": branch,
        "dirty": bool(names) if known else None,
        "changes": names,
        "diff": kept,
    }


def tracked_files(folder: Path, pattern: str) -> set[str]:
    """The paths below the folder that git tracks and that fit; none outside of a repository."""
    listed = (
        None if "site-packages" in folder.parts else _git(folder, "ls-files", "-z", "--", pattern)
    )
    return set(filter(None, (listed or "").split("\0")))


def with_attempt(content: Provenance, record: Provenance) -> Provenance:
    """The content of ``provenance.json`` with this record, in the place of that of the same
    attempt."""
    others = [
        attempt for attempt in attempts(content) if attempt.get("attempt") != record["attempt"]
    ]
    found = [*others, record]
    last = next((each for each in reversed(found) if each["from"] < each["steps"]), found[-1])
    told = {name: value for each in found for name, value in each.get("about", {}).items()}
    source = {SOURCE: content[SOURCE]} if SOURCE in content else {}
    return {**last, **told, **source, "attempts": found, "scorings": scorings(content)}


def with_scoring(content: Provenance, by: Provenance, on: str) -> Provenance:
    """The content with this set's scoring by a process; the sets that one attempt scores are one
    scoring."""
    others: list[Provenance] = [{}, *scorings(content)]
    last = others.pop()
    if by.get("attempt") is None or last.get("attempt") != by["attempt"]:
        others, last = [*others, last], {"scoring": len(others) + 1, "sets": []}
    kept = {
        name: by.get(name) for name in ("attempt", "ts", "host", "versions", "own_files", "code")
    }
    return {**content, "scorings": [*others[1:], {**last, **kept, "sets": [*last["sets"], on]}]}


def attempts(content: Mapping[str, Any]) -> list[Provenance]:
    """The records of all attempts, the oldest first."""
    return list(content.get("attempts", [dict(content)] if content else []))


def scorings(content: Mapping[str, Any]) -> list[Provenance]:
    """The records of all scorings, the oldest first."""
    return list(content.get("scorings", []))


def trained_by(content: Mapping[str, Any], step: int) -> list[Provenance]:
    """The records of the attempts whose steps are in the weights of ``step``, the oldest first.

    An attempt goes on from a checkpoint of the attempt ``of``; without one, of the last that began
    before that step. A scoring alone begins at the end.
    """
    found: list[Provenance] = []
    of = None
    for record in reversed(attempts(content)):
        if of is not None and record.get("attempt") != of:
            continue
        of = record.get("of")
        if record.get("from", 0) < step:
            found.insert(0, record)
            step = record.get("from", 0)
    return found


def scored_by(content: Mapping[str, Any], on: str) -> Provenance:
    """The record of the last scoring of this set; {} without one."""
    return next((scoring for scoring in reversed(scorings(content)) if on in scoring["sets"]), {})


def prepared_place(folder: Path, task: str, fingerprint: str, code: str = "") -> Path:
    """Where the data of this fingerprint lies below ``paths.data``, as that version of the user's
    code prepared it.

    ``code`` is its hash; "" for our own task, whose fingerprint names its version.
    """
    identity = f"{fingerprint}\0{code}" if code else fingerprint
    return folder / task / sha256(identity.encode()).hexdigest()[:16]


def changes(provenance: Mapping[str, Any]) -> str:
    """What follows the commit: such as " with changes in sweeps/task.py"."""
    files = [str(name) for name in provenance.get("changes") or ()]
    more = [f"{len(files) - SHOWN} more"] if len(files) > SHOWN else []
    named = f" in {', '.join([*files[:SHOWN], *more])}" if files else ""
    return f" with changes{named}" if provenance.get("dirty") else ""


def own_version() -> str | None:
    """The installed version of allelse; None where it only lies on the path."""
    return _version(DISTRIBUTION)


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu_model() -> str:
    """Such as "AMD EPYC 9654"."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
