"""Where a result comes from: one record of each attempt at a trial and of each scoring, and none is ever replaced.

``provenance.json`` has them as ``attempts`` and ``scorings``. The fields of the last attempt that trained are also at
its top level, for a reader who wants one answer. ``<study>/code/<hash>.zip`` is one version of the user's code: the
bytes of his Python files. A study has more than one only if a person typed `--changed-code`.
"""

import io
import os
import platform
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import cache, cached_property, partial
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from tracking.files import DamagedFileError, read_whole, unless_damaged, write_atomic
from tracking.uri import code_without_secrets, diff_without_secrets, shown_words
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
CODE_FOLDER = "code"
FILE_DIGITS = 12  # of a hash in names of files
INSTALLED = "@"
"""Before the name of an editable install, whose files lie in another folder than the task's."""
EPOCH = (1980, 1, 1, 0, 0, 0)  # a zip's first moment: equal files make equal archives
Provenance = dict[str, Any]


def of_process() -> Provenance:
    """What this process computes with: its machine, and the version of every package that it has imported so far."""
    cpu = {"model": cpu_model(), "count": os.cpu_count()}
    machine = {"ts": time.time(), "host": socket.gethostname(), "cpu": cpu}
    return machine | {"versions": versions(), "own_files": own_files()}


def versions() -> dict[str, str | None]:
    """By the name of the package as it is installed."""
    known, names = _distributions(), {name.partition(".")[0] for name in list(sys.modules)}
    imported = {each: _version(each) for name in names for each in known.get(name, ())}
    return {"python": platform.python_version(), DISTRIBUTION: own_version(), **dict(sorted(imported.items()))}


def of_sweep(folder: Path, code: Sequence[str] = (".",)) -> Provenance:
    """What holds for all attempts of a sweep: the commit, branch and changes of the folder where the task lies."""
    command = shell_line(shown_words([sys.executable, *sys.argv]))
    return {**git_state(folder, code), "driver": socket.gethostname(), "command": command}


@cache
def own_files() -> str:
    """SHA-256 of our own Python files, as they lay on disk when this process first asked: at its start."""
    whole = sha256()
    for file in sorted(path for name in OUR_CODE for path in (ROOT / name).rglob("*.py") if path.is_file()):
        whole.update(f"{file.relative_to(ROOT).as_posix()}\0".encode() + sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def git_state(folder: Path, code: Sequence[str] = (".",)) -> Provenance:
    """Commit, branch and uncommitted changes, all None or empty outside of a repository; so is what git cannot tell.

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
    return {"commit": commit, "branch": branch, "dirty": bool(names) if known else None, "changes": names, "diff": kept}


def with_attempt(content: Provenance, record: Provenance) -> Provenance:
    """The content of ``provenance.json`` with this record, in the place of that of the same attempt."""
    others = [each for each in attempts(content) if each.get("attempt") != record["attempt"]]
    found = [*others, record]
    last = next((each for each in reversed(found) if each["from"] < each["steps"]), found[-1])
    told = {name: value for each in found for name, value in each.get("about", {}).items()}
    return {**last, **told, "attempts": found, "scorings": scorings(content)}


def with_scoring(content: Provenance, by: Provenance, on: str) -> Provenance:
    """The content with this set's scoring by a process; the sets that one attempt scores are one scoring."""
    others: list[Provenance] = [{}, *scorings(content)]
    last = others.pop()
    if by.get("attempt") is None or last.get("attempt") != by["attempt"]:
        others, last = [*others, last], {"scoring": len(others) + 1, "sets": []}
    kept = {name: by.get(name) for name in ("attempt", "ts", "host", "versions", "own_files", "code")}
    return {**content, "scorings": [*others[1:], {**last, **kept, "sets": [*last["sets"], on]}]}


def attempts(content: Mapping[str, Any]) -> list[Provenance]:
    """The records of all attempts, the oldest first."""
    return list(content.get("attempts", [dict(content)] if content else []))


def scorings(content: Mapping[str, Any]) -> list[Provenance]:
    """The records of all scorings, the oldest first."""
    return list(content.get("scorings", []))


def trained_by(content: Mapping[str, Any], step: int) -> list[Provenance]:
    """The records of the attempts whose steps are in the weights of ``step``, the oldest first.

    An attempt goes on from a checkpoint of the attempt ``of``; without one, of the last that began before that step.
    A scoring alone begins at the end.
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
    return next((each for each in reversed(scorings(content)) if on in each["sets"]), {})


def prepared_place(folder: Path, task: str, fingerprint: str) -> Path:
    """Where the prepared data of this fingerprint lies below ``paths.data``."""
    return folder / task / sha256(fingerprint.encode()).hexdigest()[:16]


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
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False, errors="replace")
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


@dataclass(frozen=True, eq=False)
class Code:
    """``files`` by their path in the task's folder, or by ``@name/path`` for an editable install.

    ``roots`` are the folders where these lie today: "" is the task's, others are by ``@name``.
    """

    files: Mapping[str, bytes]
    roots: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all paths and contents."""
        lines = (f"{name}\0{sha256(self.files[name]).hexdigest()}\n" for name in sorted(self.files))
        return sha256("".join(lines).encode()).hexdigest()

    @cached_property
    def placed(self) -> dict[str, bytes]:
        """The files by their absolute path today, without those of an install that is no longer there."""
        gone = {name for name in self.files if name.startswith(INSTALLED) and name.partition("/")[0] not in self.roots}
        return {str(self.place(name)): content for name, content in self.files.items() if name not in gone}

    def place(self, name: str) -> Path:
        """Where the file lies today."""
        root, _, inner = name.partition("/") if name.startswith(INSTALLED) else ("", "", name)
        return Path(self.roots[root], inner)


def write_code(study: Path, code: Code) -> None:
    """Keep the version, unless the study has it whole."""
    path = _path(study, code.digest)
    if unless_damaged(partial(read_code, study, code.digest), None) is not None:
        return
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(code.files):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), code.files[name], zipfile.ZIP_DEFLATED)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content.getvalue())


def read_code(study: Path, digest: str, roots: Mapping[str, str] | None = None) -> Code:
    """The version with this hash, in today's folders. Raises DamagedFileError if its file is missing or was changed."""
    path = _path(study, digest)
    content = read_whole(path)
    if content is None:
        raise DamagedFileError(path, "is missing, but the study was trained with it")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    except zipfile.BadZipFile as error:
        raise DamagedFileError(path, f"is no archive: {error}") from None
    code = Code(files, roots or {})
    if code.digest != digest:
        raise DamagedFileError(path, "holds other files than its name says")
    return code


def changed_files(before: Code, now: Code, among: Collection[str] | None = None) -> list[str]:
    """The files that differ, were removed or are new; ``among`` limits them."""
    names = sorted({*before.files, *now.files} if among is None else among)
    return [name for name in names if before.files.get(name) != now.files.get(name)]


def code_diff(before: Code, now: Code, names: Collection[str]) -> Iterator[str]:
    """The lines of a unified diff of these files, without secrets."""
    for name in names:
        old, new = (each.files.get(name, b"").decode("utf-8", "replace").splitlines() for each in (before, now))
        for line in unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""):
            yield code_without_secrets(line)


def _path(study: Path, digest: str) -> Path:
    return study / CODE_FOLDER / f"{digest[:FILE_DIGITS]}.zip"
