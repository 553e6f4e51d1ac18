"""The user's code: which Python files a task can import, which of them it names, and whether they have changed.

They lie in the task's folder and in editable installs, whether git tracks them or not. What trials import are the bytes
that the study has recorded (``sweeps.worker.recorded_code``), so an edit never reaches a trial by itself.
"""

import ast
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sweeps.config.tasks import OURS, TaskSource, reference_of
from sweeps.planning.plan import Plan
from sweeps.schema import Problem, RefusedError, damaged
from sweeps.worker.checkpoints import saved_steps
from sweeps.worker.recorded_code import INSTALLS, holds_python
from tracking.attempts import in_hand
from tracking.files import DamagedFileError, unless_damaged, write_atomic
from tracking.provenance import (
    CODE_FOLDER,
    DISTRIBUTION,
    FILE_DIGITS,
    INSTALLED,
    OUR_CODE,
    ROOT,
    Code,
    Provenance,
    changed_files,
    code_diff,
    of_sweep,
    read_code,
    write_code,
)
from tracking.study import Study

DEPTH = 3
"""How many nested folders without a Python file may still lead to a package. What lies deeper is data."""
MOST_ENTRIES = 5000
"""A folder with more entries, and no Python file among the first ones, holds data."""
LINES = 60
"""Of a diff that a refusal shows."""
NAMED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\.([A-Za-z_]\w*)?")
"""A text that may name a module, or begin the name of one."""
IMPORTING = ("import_module", "__import__", "instantiate", "get_class", "get_method", "locate")
"""Functions that import what they are given, of importlib, Hydra and pydoc."""
NO_CODE = (*INSTALLS, "__pycache__")


def with_code(plan: Plan, any_code: bool = False) -> Plan:
    """The plan with the code that its trials import. Raises RefusedError if other code trained a part of the study."""
    study, now = plan.before, user_code(plan.composition.shared.source)
    if now is None or study is None or not _is_held(study, plan.composition.shared.paths.checkpoints):
        return replace(plan, code=now, codes=() if now is None else (now.digest,))
    try:
        before = _recorded(study, now)
        names = named_changes(plan.composition.shared.source, before, now)
        problems = [_refusal(study, before, now, names)] if names else []
    except DamagedFileError as error:
        before, problems = now, [_lost(error)]
    if not (problems and plan.pending):  # where nothing is to run, nothing changes
        return replace(plan, code=before, codes=study.code)
    if not any_code:
        raise RefusedError(problems)
    return replace(plan, code=now, codes=(*study.code, now.digest))


def _recorded(study: Study, now: Code) -> Code:
    """The code that the study has recorded last: today's, if that is the same. Raises DamagedFileError."""
    digest = study.code[-1]
    return now if now.digest == digest else read_code(study.folder, digest, now.roots)


def scoring_code(study: Study, source: TaskSource) -> Code | None:
    """The code with which a verb of the task scores now: the study's, unless a file that the task names has changed."""
    now = user_code(source)
    if now is None or not study.code:
        return now
    before = unless_damaged(partial(_recorded, study, now), now)
    return now if named_changes(source, before, now) else before


def changed_since(study: Study, source: TaskSource, checkpoints: str | None) -> list[str] | None:
    """The files whose change keeps the study from going on without ``--changed-code``. None if any may change."""
    now = user_code(source)
    if now is None or not _is_held(study, checkpoints):
        return None
    try:
        return named_changes(source, _recorded(study, now), now)
    except DamagedFileError as error:
        return [error.path.name]


def _is_held(study: Study, checkpoints: str | None) -> bool:
    """Whether further trials must share the study's code: any trial has a step, or a process is about to add one.

    Until then the code may change: a fault that ends the first trials at once can be fixed without a mark.
    ``checkpoints`` is ``paths.checkpoints``.
    """
    if not study.code:
        return False
    folders = [(study.trial_folder(trial), trial.key) for trial in study.trials]
    by_name = {folder.path.name: folder for folder, _ in folders}
    if in_hand(study.folder, by_name, lambda name: by_name[name].newest_attempt()):
        return True
    if any(folder.journal_path.exists() or folder.result_path.exists() for folder, _ in folders):
        return True
    begun = ((folder, key) for folder, key in folders if folder.attempts_path.exists())
    return any(
        saved_steps(folder.checkpoints_url(checkpoints), key, unless_damaged(folder.lineage, None))
        for folder, key in begun
    )


def user_code(source: TaskSource) -> Code | None:
    """All that the task can import of the user's, as it is now; None for our own task."""
    if source.name in OURS:
        return None
    here = Path(source.folder)
    installs = {f"{INSTALLED}{name}": root for name, root in _editable_folders(here)}
    of_installs = {f"{name}/{path}": of for name, root in installs.items() for path, of in _found(root, here).items()}
    everything = _found(here) | of_installs
    named = {name.split("/")[0] for name in reached(source, everything) if name in of_installs}
    kept = {name: of for name, of in everything.items() if name not in of_installs or name.split("/")[0] in named}
    return Code(kept, {"": source.folder, **{name: str(installs[name]) for name in installs if name in named}})


def reached(source: TaskSource, files: Mapping[str, bytes]) -> set[str]:
    """The files that the task names, directly or by others: by an import anywhere, or by a text such as "nets.small".

    A package that is named counts as a whole.
    """
    names, found = {reference_of(source.name).partition(":")[0].partition(".")[0]}, set[str]()
    while new := {name for name in files.keys() - found if names & _parts(name)}:
        found |= new
        names |= {said for name in new for said in _names_in(files[name])}
    return found


def named_changes(source: TaskSource, before: Code, now: Code) -> list[str]:
    """The files that the task names, then or now, and that differ."""
    if before.digest == now.digest:
        return []
    return changed_files(before, now, reached(source, before.files) | reached(source, now.files))


class Watch:
    """Tells once that files which the task names have changed since a sweep began."""

    def __init__(self, source: TaskSource, code: Code | None) -> None:
        names = reached(source, code.files) if code is not None else ()
        self._files = {name: (code.place(name), code.files[name]) for name in sorted(names)} if code else {}

    def __call__(self) -> str:
        """A line; "" if nothing has changed, or if it was said."""
        changed = [name for name, (path, content) in self._files.items() if _content(path) != content]
        if not changed:
            return ""
        self._files = {}
        return f"{', '.join(changed)} changed: this sweep goes on with the code that it began with"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def origin_of(source: TaskSource, code: Code | None) -> Provenance:
    """Where the code comes from at this moment: commit, branch and the uncommitted diff as ``diff``."""
    if code is None:
        return of_sweep(ROOT, OUR_CODE)
    module = sys.modules.get(reference_of(source.name).partition(":")[0])
    file = getattr(module, "__file__", None)
    return of_sweep(Path(file).parent if file else Path(source.folder))


def keep_origin(study: Path, record: Provenance, code: Code | None) -> Provenance:
    """Keep the code and the uncommitted diff in the study; returns what provenance has of every attempt."""
    text = record["diff"]
    if code is not None:
        write_code(study, code)
    name = f"{CODE_FOLDER}/{sha256(text.encode()).hexdigest()[:FILE_DIGITS]}.diff" if text else None
    if name is not None and not (study / name).exists():
        write_atomic(study / name, text)
    return {**record, "diff": name, "code": code and code.digest}


def _lost(error: DamagedFileError) -> Problem:
    allowed = "restore it from a copy; `--changed-code` goes on with today's code, and the table marks those rows"
    return replace(damaged(error), allowed=allowed)


def _refusal(study: Study, before: Code, now: Code, names: list[str]) -> Problem:
    lines = list(code_diff(before, now, names))
    more = [f"… {len(lines) - LINES} lines more"] * (len(lines) > LINES)
    shown = "\n".join(["", *lines[:LINES], *more])
    found = f"has changed since {study.name} began: {', '.join(names)}{shown}"
    allowed = (
        "restore it, or choose another sweep.name to train everything with it; "
        "`--changed-code` trains the remaining trials with the new code, and the table marks them"
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
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in IMPORTING:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            yield from (
                str(each.value).lstrip(".").partition(".")[0] for each in given if isinstance(each, ast.Constant)
            )


def _found(root: Path, without: Path | None = None) -> dict[str, bytes]:
    """The Python files below the folder, by their path there."""
    files = _python_files(root, 0, (os.path.realpath(root),))
    own = (path for path in files if without is None or not path.is_relative_to(without))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in own}


def _python_files(folder: Path, empty: int, real: tuple[str, ...]) -> Iterator[Path]:
    """``empty``: how many folders above it, in a row, have no Python file. ``real``: where the folder and the links
    above it lead, so that links cannot form a circle."""
    files, folders = list[Path](), list[Path]()
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count >= MOST_ENTRIES and not files:
                    return
                if entry.name.endswith(".py") and entry.is_file():
                    files.append(Path(entry.path))
                elif not entry.name.startswith(".") and entry.name not in NO_CODE and entry.is_dir():
                    folders.append(Path(entry.path))
    except OSError:  # it cannot be imported from either
        return
    yield from files
    empty = 0 if files else empty + 1
    for inner in folders if empty < DEPTH else ():
        if _is_ours(inner) or holds_python(inner):
            continue
        if not inner.is_symlink():
            yield from _python_files(inner, empty, real)
        elif not _is_circle(inner, real):  # a link to a folder without Python files leads to data
            yield from _python_files(inner, DEPTH - 1, (*real, os.path.realpath(inner)))


def _is_circle(link: Path, real: tuple[str, ...]) -> bool:
    target = link.resolve()
    return str(target) in real or link.parent.resolve().is_relative_to(target)


def _is_ours(folder: Path) -> bool:
    return folder.name in OUR_CODE and getattr(sys.modules.get(folder.name), "__path__", [None])[0] == str(folder)


def _editable_folders(here: Path) -> Iterator[tuple[str, Path]]:
    """Name and folder of each editable install, but for ours; what lies in the task's folder is known from there."""
    for each in distributions():
        content = json.loads(each.read_text("direct_url.json") or "{}")
        if content.get("dir_info", {}).get("editable") and each.name != DISTRIBUTION:
            root = Path(unquote(urlsplit(content["url"]).path))
            if not root.is_relative_to(here):
                yield each.name, root
