"""Where a result comes from: a record of each attempt at a trial and of each scoring.

``provenance.json`` has them as ``attempts`` and ``scorings``; no record is ever replaced. Its top
level repeats the fields of the last attempt that trained, for a reader who wants one answer.
"""

import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from tracking.shell import shell_line
from tracking.uri import diff_without_secrets, shown_words

DISTRIBUTION = "allelse"
OUR_CODE = ("allelse", "sweeps", "tracking", "transformer")
"""The packages whose code decides a result. Rows and other settings are recorded with the trial."""
ROOT = Path(__file__).parents[1]
"""The folder of these packages: a checkout, or that of installed packages."""
SHOWN = 3
"""Changed files that a sentence names."""
MOST_DIFF = 1 << 20
"""Bytes of a diff that a record keeps."""
PROCESS_FIELDS = ("attempt", "ts", "host", "versions", "own_files", "code")
"""What a scoring records of its process."""
RESUMED_FROM = "resumed_from"
"""The checkpoint that a command's last attempt went on from; None if it began again."""
SOURCE = "taken_from"
"""The key of the source trial in ``attempts.jsonl`` and ``provenance.json``."""
WORKERS = " × "
"""What separates a device from the number of its workers, as in "NVIDIA H100 × 2"."""
SOURCE_FORM = {"study": str, "identity": str, "trial": str}
Provenance = dict[str, Any]


@dataclass(frozen=True)
class SourceTrial:
    """The trial of another study that a trial was taken from, by the names that it had then.

    ``identity`` is that of its study, which a rename keeps."""

    study: str
    identity: str
    trial: str

    def __str__(self) -> str:
        """Such as "multi30k-half/base-s1"."""
        return f"{self.study}/{self.trial}"

    @staticmethod
    def of(content: dict[str, Any]) -> "SourceTrial":
        return SourceTrial(content["study"], content["identity"], content["trial"])


def of_process() -> Provenance:
    """This process's machine, and the versions of all packages imported so far."""
    machine = {"ts": time.time(), "host": socket.gethostname(), "cpu": this_cpu()}
    return machine | {"versions": versions(), "own_files": own_files()}


def versions() -> dict[str, str | None]:
    """By the name under which the package is installed."""
    distributions_of = _distributions()
    distributions: set[str] = set()
    for module in {name.partition(".")[0] for name in list(sys.modules)}:
        distributions.update(distributions_of.get(module, ()))
    imported = {name: _version(name) for name in sorted(distributions)}
    return {"python": platform.python_version(), DISTRIBUTION: own_version(), **imported}


def of_sweep(folder: Path, code: Sequence[str] = (".",)) -> Provenance:
    """What all attempts of a sweep share, such as the commit and changes of the task's folder."""
    command = shell_line(shown_words([sys.executable, *sys.argv]))
    return {**git_state(folder, code), "driver": socket.gethostname(), "command": command}


@cache
def own_files() -> str:
    """SHA-256 of our own Python files on disk at the first call: when a process starts."""
    paths: list[Path] = []
    for package in OUR_CODE:
        paths += [path for path in (ROOT / package).rglob("*.py") if path.is_file()]
    digest = sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
        digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def git_state(folder: Path, code: Sequence[str] = (".",)) -> Provenance:
    """Commit, branch and uncommitted changes: None or empty outside a repository, and where git
    can't tell.

    A package installed inside another project must not get that project's commit.
    """
    commit = None if "site-packages" in folder.parts else _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {"commit": None, "branch": None, "dirty": None, "changes": None, "diff": ""}
    # -z: without it, git quotes names with letters beyond ASCII
    changed = _git(folder, "diff", "-z", "--name-only", "--relative", "HEAD", "--", *code)
    added = _git(folder, "ls-files", "-z", "--others", "--exclude-standard", "--", *code)
    names = set(filter(None, (changed or "").split("\0")))
    names |= {name for name in (added or "").split("\0") if name.endswith(".py")}
    is_known = changed is not None and added is not None
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    diff = diff_without_secrets(_git(folder, "diff", "--relative", "HEAD", "--", *code) or "")
    return {
        "commit": commit,
        "branch": branch,
        "dirty": bool(names) if is_known else None,
        "changes": sorted(names),
        "diff": diff.encode()[:MOST_DIFF].decode("utf-8", "ignore"),
    }


def tracked_files(folder: Path, pattern: str) -> set[str]:
    """The paths below the folder that git tracks and that match; none outside a repository."""
    if "site-packages" in folder.parts:
        return set()
    paths = _git(folder, "ls-files", "-z", "--", pattern) or ""
    return set(filter(None, paths.split("\0")))


def with_attempt(content: Provenance, record: Provenance) -> Provenance:
    """The content of ``provenance.json`` with this record instead of one of its attempt."""
    number = record["attempt"]
    records = [attempt for attempt in attempts(content) if attempt.get("attempt") != number]
    records.append(record)
    trained = (attempt for attempt in reversed(records) if attempt["from"] < attempt["steps"])
    updated = dict(next(trained, record))
    for attempt in records:
        updated |= attempt.get("about", {})
    if SOURCE in content:
        updated[SOURCE] = content[SOURCE]
    return {**updated, "attempts": records, "scorings": scorings(content)}


def with_scoring(content: Provenance, process: Provenance, set_name: str) -> Provenance:
    """The content with this set's scoring by a process.

    The sets that one attempt scores share a record.
    """
    records = scorings(content)
    attempt = process.get("attempt")
    if attempt is not None and records and records[-1].get("attempt") == attempt:
        record = records.pop()
    else:
        record = {"scoring": len(records) + 1, "sets": []}
    facts = {name: process.get(name) for name in PROCESS_FIELDS}
    record = {**record, **facts, "sets": [*record["sets"], set_name]}
    return {**content, "scorings": [*records, record]}


def attempts(content: Mapping[str, Any]) -> list[Provenance]:
    """The records of all attempts, the oldest first."""
    return list(content.get("attempts", [dict(content)] if content else []))


def scorings(content: Mapping[str, Any]) -> list[Provenance]:
    """The records of all scorings, the oldest first."""
    return list(content.get("scorings", []))


def trained_by(content: Mapping[str, Any], step: int) -> list[Provenance]:
    """The records of the attempts whose steps are in the weights of ``step``, the oldest first.

    An attempt resumes from a checkpoint of the attempt in its field ``of``; without that field, of
    the last one that began before that step. An attempt that only scores begins at the end. Weights
    of step 0, of work that reports no steps, are those of the newest attempt.
    """
    if step == 0:
        return attempts(content)[-1:]
    records: list[Provenance] = []
    predecessor = None
    for record in reversed(attempts(content)):
        if predecessor is not None and record.get("attempt") != predecessor:
            continue
        predecessor = record.get("of")
        if record.get("from", 0) < step:
            records.insert(0, record)
            step = record.get("from", 0)
    return records


def device_and_workers(record: Mapping[str, Any]) -> tuple[str, int]:
    """The device of an attempt's workers, and how many these were; ("", 1) if unknown."""
    device, _, workers = str(record.get("device") or "").partition(WORKERS)
    return device, int(workers) if workers.isdigit() else 1


def scored_by(content: Mapping[str, Any], set_name: str) -> Provenance:
    """The record of the last scoring of this set; {} without one."""
    for scoring in reversed(scorings(content)):
        if set_name in scoring["sets"]:
            return scoring
    return {}


def prepared_place(folder: Path, task: str, fingerprint: str, code: str = "") -> Path:
    """Where the data of this fingerprint is in ``paths.data``, as this version of the user's
    code prepared it.

    ``code`` is the code's hash; "" for our own task, whose fingerprint names its version.
    """
    identity = f"{fingerprint}\0{code}" if code else fingerprint
    return folder / task / sha256(identity.encode()).hexdigest()[:16]


def changes(provenance: Mapping[str, Any]) -> str:
    """Words for after the commit, such as " with changes in sweeps/task.py", or ""."""
    if not provenance.get("dirty"):
        return ""
    files = [str(name) for name in provenance.get("changes") or ()]
    if not files:
        return " with changes"
    names = files[:SHOWN]
    if len(files) > SHOWN:
        names.append(f"{len(files) - SHOWN} more")
    return f" with changes in {', '.join(names)}"


def own_version() -> str | None:
    """The installed version of allelse; None if it isn't installed, but only on the path."""
    return _version(DISTRIBUTION)


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


@cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def this_cpu() -> dict[str, Any]:
    """Name, generation and number of this machine's CPUs. Without a generation if the system
    doesn't report one."""
    fields = {"model": cpu_model(), "generation": cpu_generation(), "count": os.cpu_count()}
    return {name: value for name, value in fields.items() if value is not None}


def cpu_model() -> str:
    """Such as "AMD EPYC 9654"."""
    return _cpu_fields().get("model name") or platform.processor()


def cpu_generation() -> str | None:
    """Such as "family 25, model 17, stepping 1". Two CPUs that a virtual machine calls "AMD EPYC"
    may have different generations. None if the system doesn't report one."""
    return generation_in(_cpu_fields())


def generation_in(fields: Mapping[str, str]) -> str | None:
    """The generation from the fields of ``/proc/cpuinfo``."""
    names = {"cpu family": "family", "model": "model", "stepping": "stepping"}
    if not names.keys() <= fields.keys():
        return None
    return ", ".join(f"{name} {fields[field]}" for field, name in names.items())


def fields_of_first_cpu(text: str) -> dict[str, str]:
    """Its fields in the text of ``/proc/cpuinfo``."""
    first_cpu = text.partition("\n\n")[0]
    fields = (line.partition(":") for line in first_cpu.splitlines())
    return {name.strip(): value.strip() for name, _, value in fields}


def _cpu_fields() -> dict[str, str]:
    """Linux's fields for the first CPU; empty on other systems."""
    try:
        return fields_of_first_cpu(Path("/proc/cpuinfo").read_text())
    except OSError:
        return {}
