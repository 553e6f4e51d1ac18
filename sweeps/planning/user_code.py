"""The user's code: which Python files belong to a study, and whether they have changed.

They lie in the task's folder and in editable installs. Where git tracks some, these count, and
others only if the task names them; elsewhere all count. Trials run in the study's folder of them
(``sweeps.worker.user_code.folder``), so an edit never reaches a trial by itself.
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
from sweeps.worker.user_code.folder import ready_code, settings_texts
from sweeps.worker.user_code.imports import INSTALLS, holds_python
from tracking.attempts import in_hand
from tracking.code import (
    CODE_FOLDER,
    FILE_DIGITS,
    INSTALLED,
    Code,
    changed_files,
    code_diff,
    read_code,
)
from tracking.files import DamagedFileError, unless_damaged, write_atomic
from tracking.provenance import (
    DISTRIBUTION,
    OUR_CODE,
    ROOT,
    Provenance,
    of_sweep,
    tracked_files,
    trained_by,
)
from tracking.same_code import SameCode
from tracking.study import Study, StudyTrial
from tracking.trial import TrialFolder

DEPTH = 3
"""How many nested folders without a Python file may still lead to a package. What lies deeper is
data."""
MOST_ENTRIES = 5000
"""A folder with more entries, and no Python file among the first ones, holds data."""
LINES = 60
"""Of a diff that a refusal shows."""
PATHS = re.compile(r"[\w./*-]+")
"""A text that may name modules or files, or begin the name of one; in a file of settings each such
word."""
EVERY = "*"
"""Stands for all modules, where any may be imported."""
IMPORTING = ("import_module", "__import__", "instantiate", "get_class", "get_method", "locate")
"""Functions that import what they are given, of importlib, Hydra and pydoc."""
LISTING = ("iter_modules", "walk_packages")
"""Functions that name all modules of a package."""
NO_CODE = (*INSTALLS, "__pycache__")


def with_code(plan: Plan, any_code: bool = False) -> Plan:
    """The plan with the code that its trials run. Raises RefusedError if other code trained a part
    of the study."""
    study = plan.before
    now = user_code(plan.composition.shared.source)
    held = held_codes(study, plan.composition.shared.paths.checkpoints) if study else ()
    if now is None or study is None or not held:
        return _running(plan, now, () if now is None else (now.digest,))
    try:
        before = _recorded(study, held[-1], now)
        now = _as_recorded(now, before)
        names = changed_files(before, now)
        problems = [_refusal(study, before, now, names)] if names else []
    except DamagedFileError as error:
        before = now
        problems = [_lost(error)]
    if problems and SameCode(study.vouched).are_same(held[-1], now.digest):
        return _running(plan, now, tuple(dict.fromkeys((*held, now.digest))))
    if not (problems and plan.pending):  # where nothing is to run, nothing changes
        return _running(plan, before, held)
    if not any_code:
        raise RefusedError(problems)
    return _running(plan, now, (*held, now.digest))


def _running(plan: Plan, code: Code | None, codes: tuple[str, ...]) -> Plan:
    digest = "" if code is None else code.digest
    trials = tuple(replace(planned, code=digest) for planned in plan.trials)
    return replace(plan, trials=trials, code=code, codes=codes)


def _recorded(study: Study, digest: str, now: Code) -> Code:
    """This version of the study's: today's, if that is the same. Raises DamagedFileError."""
    return now if now.digest == digest else read_code(study.folder, digest, now.roots)


def _as_recorded(now: Code, before: Code) -> Code:
    """Today's code with all files that were recorded and are still there, whether git tracks them
    by now or not."""
    files = dict(now.files)
    for name in before.files.keys() - files.keys():
        if name.startswith(INSTALLED) and name.partition("/")[0] not in now.roots:
            continue
        content = _content(now.place(name))
        if content is not None:
            files[name] = content
    return Code(files, now.roots)


def changed_since(study: Study, source: TaskSource, checkpoints: str | None) -> list[str] | None:
    """The files whose change keeps the study from going on without ``--changed-code``. None if any
    may change."""
    now = user_code(source)
    held = held_codes(study, checkpoints)
    if now is None or not held:
        return None
    try:
        before = _recorded(study, held[-1], now)
    except DamagedFileError as error:
        return [error.path.name]
    now = _as_recorded(now, before)
    return (
        [] if SameCode(study.vouched).are_same(held[-1], now.digest) else changed_files(before, now)
    )


def held_codes(study: Study, checkpoints: str | None) -> tuple[str, ...]:
    """The versions of which something that was trained is there, a result or a checkpoint: the
    oldest first.

    So are those of a process that is about to train. As long as there is none, the code may change:
    a fault that ends the first trials can be fixed without a mark. ``checkpoints`` is
    ``paths.checkpoints``.
    """
    if not study.code:
        return ()
    held = set[str]()
    for trial in study.trials:
        held |= _trained_with(study, trial, checkpoints)
    by_name = {trial.name: study.trial_folder(trial) for trial in study.trials}
    if in_hand(study.folder, by_name, lambda name: by_name[name].newest_attempt()):
        held.add(study.code[-1])
    return tuple(digest for digest in study.code if digest in held)


def _trained_with(study: Study, trial: StudyTrial, checkpoints: str | None) -> set[str]:
    """The versions that are in what the trial has: in its weights, or in its newest checkpoint."""
    if trial.weights:  # they are its host's
        return set()
    folder = study.trial_folder(trial)
    result = folder.finished_result(trial.key)
    if result is not None:
        step = int(result["step"])
    elif folder.attempts_path.exists():
        step = max(_saved_steps(folder, trial.key, checkpoints), default=0)
    else:
        step = 0
    if result is None and step == 0:
        return set()
    records = trained_by(unless_damaged(folder.provenance, {}), step)
    recorded = {str(record["code"]) for record in records if record.get("code")}
    return recorded & {*study.code} or {study.code[-1]}


def _saved_steps(folder: TrialFolder, key: str, checkpoints: str | None) -> set[int]:
    lineage = unless_damaged(folder.lineage, None)
    return saved_steps(folder.checkpoints_url(checkpoints), key, lineage)


def scoring_code(study: Study | None, source: TaskSource) -> Code | None:
    """The code with which a verb of the task scores now."""
    now = user_code(source)
    if now is None or study is None or not study.code:
        return now
    before = unless_damaged(partial(_recorded, study, study.code[-1], now), now)
    return _as_recorded(now, before)


def recorded_code(study: Path, digest: str, source: TaskSource) -> Code | None:
    """The version with this hash that the study keeps, in today's folders; today's where none was
    recorded.

    Raises DamagedFileError.
    """
    now = user_code(source)
    if now is None or digest in ("", now.digest):
        return now
    return read_code(study, digest, now.roots)


def user_code(source: TaskSource) -> Code | None:
    """What belongs to the task of the user's, as it is now; None for our own task."""
    if source.name in OURS:
        return None
    here = Path(source.folder)
    installs = {f"{INSTALLED}{name}": root for name, root in _editable_folders(here)}
    everything = _found(here)
    for name, root in installs.items():
        everything |= {f"{name}/{path}": content for path, content in _found(root, here).items()}
    belonging = _reached(source, everything, settings_texts(here))
    used = {_root_of(name) for name in belonging}  # an installed task may use none of this folder
    installs = {name: root for name, root in installs.items() if name in used}
    for name in used:
        belonging |= _tracked(name, installs.get(name, here), everything)
    files = {name: content for name, content in everything.items() if name in belonging}
    return Code(files, {"": source.folder, **{name: str(root) for name, root in installs.items()}})


def _tracked(root: str, folder: Path, files: Mapping[str, bytes]) -> set[str]:
    """Those of the root's files that git tracks; all of them where it tracks none."""
    of_root = {name for name in files if _root_of(name) == root}
    tracked = {f"{root}/{path}" if root else path for path in tracked_files(folder, "*.py")}
    return of_root & tracked or of_root


def _root_of(name: str) -> str:
    return name.partition("/")[0] if name.startswith(INSTALLED) else ""


def _reached(source: TaskSource, files: Mapping[str, bytes], settings: list[str]) -> set[str]:
    """The files that the task names, directly or by others: by an import anywhere, or by a text
    such as "nets.small" or "plugins/*.py", also one in a file of settings.

    A package that is named counts as a whole.
    """
    names = {reference_of(source.name).partition(":")[0].partition(".")[0]}
    for text in settings:
        for word in PATHS.findall(text):
            names |= set(_names_in_text(word)) - {EVERY}
    reached = set[str]()
    while new := {name for name in files.keys() - reached if names & {EVERY, *_parts(name)}}:
        reached |= new
        for name in new:
            names |= set(_names_in(name, files[name]))
    return reached


class Watch:
    """Tells once that files have changed since a sweep began."""

    def __init__(self, code: Code | None) -> None:
        names = sorted(code.files) if code is not None else ()
        self._files = {name: (code.place(name), code.files[name]) for name in names} if code else {}
        self._looks: dict[str, tuple[int, int] | None] = {}

    def __call__(self) -> str:
        """A line; "" if nothing has changed, or if it was said."""
        changed = [name for name in self._files if self._has_changed(name)]
        if not changed:
            return ""
        self._files = {}
        return f"{', '.join(changed)} changed: this sweep goes on with the code that it began with"

    def _has_changed(self, name: str) -> bool:
        """Reads the file only if it looks unlike the last time."""
        path, content = self._files[name]
        look = _look(path)
        if name in self._looks and self._looks[name] == look:
            return False
        self._looks[name] = look
        return _content(path) != content


def _look(path: Path) -> tuple[int, int] | None:
    """Time of the last change, and size."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def origin_of(source: TaskSource, code: Code | None) -> Provenance:
    """Where the code comes from at this moment: commit, branch and the uncommitted diff as
    ``diff``."""
    if code is None:
        return of_sweep(ROOT, OUR_CODE)
    module = sys.modules.get(reference_of(source.name).partition(":")[0])
    file = getattr(module, "__file__", None)
    return of_sweep(Path(file).parent if file else Path(source.folder))


def keep_origin(study: Path, record: Provenance, code: Code | None) -> Provenance:
    """Keep the code and the uncommitted diff in the study; returns what provenance has of every
    attempt."""
    text = record["diff"]
    ready_code(code, study)
    name = f"{CODE_FOLDER}/{sha256(text.encode()).hexdigest()[:FILE_DIGITS]}.diff" if text else None
    if name is not None and not (study / name).exists():
        write_atomic(study / name, text)
    return {**record, "diff": name, "code": code and code.digest}


def _lost(error: DamagedFileError) -> Problem:
    allowed = "restore it from a copy; `--changed-code` goes on with today's code, and the table marks those rows"
    return replace(damaged(error), allowed=allowed)


def _refusal(study: Study, before: Code, now: Code, names: list[str]) -> Problem:
    lines = list(code_diff(before, now, names))
    more = [f"… {len(lines) - LINES} lines more"] if len(lines) > LINES else []
    shown = "\n".join(["", *lines[:LINES], *more])
    found = f"has changed since {study.name} began: {', '.join(names)}{shown}"
    allowed = (
        "restore it, or choose another sweep.name to train everything with it; "
        "`--changed-code` trains the remaining trials with the new code, and the table marks them; "
        "`--vouch` shows whether the new code trains the same weights, and then nothing is marked"
    )
    return Problem("the task's code", found, allowed, None, now.roots[""])


def _parts(name: str) -> set[str]:
    """What an import may call the file, or a package that holds it."""
    *folders, file = name.split("/")
    return {
        *(each for each in folders if not each.startswith(INSTALLED)),
        file.removesuffix(".py"),
    } - {"__init__"}


def _names_in(name: str, content: bytes) -> Iterator[str]:
    """The first part of each module, and the parts of each path, that the text of a file may
    name."""
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
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _names_in_text(node.value)
        elif isinstance(node, ast.Call) and _called(node) in IMPORTING:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            yield from (
                str(each.value).lstrip(".").partition(".")[0]
                for each in given
                if isinstance(each, ast.Constant)
            )
        elif isinstance(node, ast.Call) and _called(node) in LISTING:
            yield from name.split("/")[:-1] or [EVERY]


def _names_in_text(text: str) -> Iterator[str]:
    """The names of folders and modules in a text such as "nets/small.py" or "nets.small"; ``EVERY``
    for "*.py"."""
    if PATHS.fullmatch(text):
        names = [part for part in re.split(r"[./*]+", text.removesuffix(".py")) if part]
        if text.endswith(".py") and not names:
            names = [EVERY]
        yield from names


def _called(call: ast.Call) -> str:
    """The last name of what is called."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _found(root: Path, without: Path | None = None) -> dict[str, bytes]:
    """The Python files below the folder, by their path there."""
    files = _python_files(root, 0, (os.path.realpath(root),))
    own = (path for path in files if without is None or not path.is_relative_to(without))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in own}


def _python_files(folder: Path, empty: int, real: tuple[str, ...]) -> Iterator[Path]:
    """``empty``: how many folders above it, in a row, have no Python file. ``real``: where the
    folder and the links above it lead, so that links cannot form a circle."""
    files = list[Path]()
    folders = list[Path]()
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count >= MOST_ENTRIES and not files:
                    return
                if entry.name.endswith(".py") and entry.is_file():
                    files.append(Path(entry.path))
                elif (
                    not entry.name.startswith(".") and entry.name not in NO_CODE and entry.is_dir()
                ):
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
    return folder.name in OUR_CODE and getattr(sys.modules.get(folder.name), "__path__", [None])[
        0
    ] == str(folder)


def _editable_folders(here: Path) -> Iterator[tuple[str, Path]]:
    """Name and folder of each editable install, but for ours; what lies in the task's folder is
    known from there."""
    for each in distributions():
        content = json.loads(each.read_text("direct_url.json") or "{}")
        if content.get("dir_info", {}).get("editable") and each.name != DISTRIBUTION:
            root = Path(unquote(urlsplit(content["url"]).path))
            if not root.is_relative_to(here):
                yield each.name, root
