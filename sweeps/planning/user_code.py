"""The user's code: which Python files a task can import, which of them it names, and whether they have changed.

They lie in the task's folder and in editable installs, whether git tracks them or not. What trials import are the bytes
that the study has recorded (``sweeps.worker.recorded_code``), so an edit never reaches a trial by itself.
"""

import ast
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sweeps.config.settings import Settings
from sweeps.config.tasks import OURS, TaskSource, reference_of
from sweeps.planning.plan import Plan
from sweeps.schema import Problem, RefusedError, damaged
from sweeps.worker.checkpoints import saved_steps
from tracking.code import FOLDER, INSTALLED, SHOWN, Code, changed_files, diff, read_code, write_code
from tracking.damage import DamagedFileError
from tracking.files import write_atomic
from tracking.provenance import CODE, DISTRIBUTION, ROOT, of_sweep
from tracking.study import Study

DEPTH = 3
"""So many folders in a row without a Python file may hold a package; what is deeper, or in a large folder, is data."""
MOST_ENTRIES = 5000
"""Of a folder without a Python file among the first ones."""
LARGEST_FILE = 1 << 22
"""Bytes of a Python file that a person has written."""
LINES = 60
"""Of a diff in a refusal."""
NAMED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
"""A text that may name a module."""
INSTALLS = ("site-packages", "dist-packages")


def with_code(plan: Plan, any_code: bool = False) -> Plan:
    """The plan with the code that its trials import. Raises RefusedError if a part of the study has trained another."""
    study, source = plan.before, plan.composition.shared.source
    if study is None or not study.code or not _has_trained(study, plan.composition.shared):
        code = user_code(source)
        return replace(plan, code=code, codes=() if code is None else (code.digest,))
    try:
        code, problems = _changed(study, source)
    except DamagedFileError as error:
        raise RefusedError([damaged(error)]) from None
    if not (problems and plan.pending):  # where nothing is to run, nothing changes
        return replace(plan, code=code, codes=study.code)
    if not any_code:
        raise RefusedError(problems)
    now = user_code(source)
    return replace(plan, code=now, codes=(*study.code, *([now.digest] if now else [])))


def _has_trained(study: Study, settings: Settings) -> bool:
    """Whether there is a step of any trial: a fault that ends the first trials at once is mended, and marks nothing."""
    folders = [(study.trial_folder(trial), trial.key) for trial in study.trials]
    if any(folder.journal_path.exists() or folder.result_path.exists() for folder, _ in folders):
        return True
    begun = ((folder, key) for folder, key in folders if folder.attempts_path.exists())
    return any(saved_steps(folder.checkpoints_url(settings.paths.checkpoints), key) for folder, key in begun)


def user_code(source: TaskSource) -> Code | None:
    """All that the task can import of the user's, as it is now; None for our own task."""
    if source.name in OURS:
        return None
    files = _found(Path(source.folder))
    installs = _editable_installs(Path(source.folder))
    everything = files | {
        f"{INSTALLED}{name}/{path}": of for name, (_, own) in installs.items() for path, of in own.items()
    }
    named = {name.split("/")[0] for name in reached(source, everything) if name.startswith(INSTALLED)}
    kept = {
        name: of for name, of in everything.items() if not name.startswith(INSTALLED) or name.split("/")[0] in named
    }
    roots = {f"{INSTALLED}{name}": str(root) for name, (root, _) in installs.items() if f"{INSTALLED}{name}" in named}
    return Code(kept, {"": source.folder, **roots})


def reached(source: TaskSource, files: dict[str, bytes]) -> set[str]:
    """The files that the task names, directly or by others: by an import anywhere, or by a text such as "nets.small".

    A package that is named counts as a whole.
    """
    names, found = {reference_of(source.name).partition(":")[0].partition(".")[0]}, set[str]()
    while True:
        new = {name for name in files.keys() - found if names & _parts(name)}
        if not new:
            return found
        found |= new
        names |= {each for name in new for each in _names_in(files[name])}


def _changed(study: Study, source: TaskSource) -> tuple[Code | None, list[Problem]]:
    """The code that the study has recorded last, and a problem if files that the task names differ from it now.

    Raises DamagedFileError.
    """
    now = user_code(source)
    if now is None:
        return None, []
    before = read_code(study.folder, study.code[-1], now.roots)
    named = reached(source, dict(before.files)) | reached(source, dict(now.files))
    names = changed_files(before, now, named)
    return before, [_refusal(study, before, now, names)] if names else []


class Watch:
    """Tells once that files which the task names have changed since a sweep began."""

    def __init__(self, source: TaskSource, code: Code | None) -> None:
        names = reached(source, dict(code.files)) if code is not None else ()
        self._files = {name: (code.place(name), code.files[name]) for name in sorted(names)} if code else {}
        self._seen: dict[str, tuple[int, int] | None] = {}

    def __call__(self) -> str:
        """A line; "" if nothing has changed, or if it was said."""
        stamps = {name: _stamp(path) for name, (path, _) in self._files.items()}
        touched = [name for name, stamp in stamps.items() if stamp is None or stamp != self._seen.get(name)]
        self._seen = stamps
        changed = [name for name in touched if _content(self._files[name][0]) != self._files[name][1]]
        if not changed:
            return ""
        self._files = {}
        return f"{', '.join(changed)} changed: this sweep goes on with the code that it began with"


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def keep_origin(study: Path, source: TaskSource, code: Code | None) -> dict[str, Any]:
    """Keep the code and the uncommitted diff in the study; returns what provenance has of every attempt."""
    file = getattr(sys.modules.get(source.task.schema.__module__), "__file__", None)
    own = (ROOT, CODE) if code is None else (Path(file).parent if file else Path(source.folder), (".",))
    record = of_sweep(*own)
    text = record.pop("diff")
    if code is not None:
        write_code(study, code)
    name = f"{FOLDER}/{sha256(text.encode()).hexdigest()[:SHOWN]}.diff" if text else None
    if name is not None and not (study / name).exists():
        write_atomic(study / name, text)
    return {**record, "diff": name, "code": code and code.digest}


def _refusal(study: Study, before: Code, now: Code, names: list[str]) -> Problem:
    lines = list(diff(before, now, names))
    more = [f"… {len(lines) - LINES} lines more"] * (len(lines) > LINES)
    shown = "\n".join(["", *lines[:LINES], *more])
    found = f"is not that with which {study.name} began: {', '.join(names)}{shown}"
    allowed = (
        "restore it, or choose another sweep.name to train everything with it; "
        "`--changed-code` trains only what is left with it, and the table marks those rows"
    )
    return Problem("the task's code", found, allowed, None, now.roots[""])


def _parts(name: str) -> set[str]:
    """What an import may call the file, or a package that holds it."""
    *folders, file = name.split("/")
    return {*(each for each in folders if not each.startswith(INSTALLED)), file.removesuffix(".py")} - {"__init__"}


def _names_in(content: bytes) -> Iterator[str]:
    """The first part of each module that the text of a file may name."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # it cannot be imported either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from filter(None, [(node.module or "").partition(".")[0]])
            yield from (alias.name for alias in node.names if node.level)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAMED.fullmatch(node.value):
            yield node.value.partition(".")[0]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            yield from [str(node.args[0].value)] * (called in ("import_module", "__import__"))


def _found(root: Path, without: Path | None = None) -> dict[str, bytes]:
    """The Python files below the folder, by their path there."""
    files = [path for path in _python_files(root, 0) if without is None or not path.is_relative_to(without)]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def _python_files(folder: Path, empty: int) -> Iterator[Path]:
    """``empty``: so many folders above it have no Python file of their own."""
    files, folders = list[Path](), list[Path]()
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count >= MOST_ENTRIES and not files:
                    return
                if entry.name.endswith(".py") and entry.is_file() and entry.stat().st_size <= LARGEST_FILE:
                    files.append(Path(entry.path))
                elif entry.name.isidentifier() and entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
    except OSError:  # it cannot be imported from either
        return
    yield from files
    empty = 0 if files else empty + 1
    for inner in folders if empty < DEPTH else ():
        if not (_is_ours(inner) or inner.name in INSTALLS or (inner / "pyvenv.cfg").exists()):
            yield from _python_files(inner, empty)


def _is_ours(folder: Path) -> bool:
    return folder.name in CODE and getattr(sys.modules.get(folder.name), "__path__", [None])[0] == str(folder)


def _editable_installs(here: Path) -> dict[str, tuple[Path, dict[str, bytes]]]:
    """By name, the folder and the files of each; what lies in the task's folder is known from there."""
    found = dict[str, tuple[Path, dict[str, bytes]]]()
    for name, root in _editable_folders():
        if name != DISTRIBUTION and not root.is_relative_to(here):
            found[name] = root, _found(root, here)
    return found


def _editable_folders() -> Iterable[tuple[str, Path]]:
    for each in distributions():
        content = json.loads(each.read_text("direct_url.json") or "{}")
        if content.get("dir_info", {}).get("editable"):
            yield each.name, Path(unquote(urlsplit(content["url"]).path))
