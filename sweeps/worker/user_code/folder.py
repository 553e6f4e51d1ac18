"""The folder of a study's code as trials use it: Python files as recorded, and links to all else of
today's folders.

Trial processes run there (``imports``). What a task writes next to its files stays there: nothing
in the user's folder is replaced or removed.
"""

import atexit
import os
import re
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from sweeps.processes.storage import PREFIX
from sweeps.processes.times import NEW_FILES_EVERY_S
from tracking.activity.runners import runners
from tracking.attempts import own_process
from tracking.code import (
    CODE_FOLDER,
    Code,
    code_folders,
    code_place,
    set_code_aside,
    split_name,
    write_code,
)
from tracking.files import DamagedFileError
from tracking.study import STUDY_FILE

NOT_LINKED = ("__pycache__", ".git")
"""A link to the second would make git take the folder for the user's."""
WORD = re.compile(r"[\w.-]+")
SETTINGS = (".yaml", ".yml", ".toml", ".json", ".cfg", ".ini", ".sh")
"""Files that may name modules and folders, in addition to Python files."""
LARGEST = 1 << 16  # bytes of such a file; longer ones hold data


@dataclass(frozen=True, eq=False)
class CodeFolder:
    """One version of the user's code, at ``path`` in a study. ``study`` is never linked into
    itself."""

    code: Code
    path: Path
    study: Path

    @cached_property
    def folders(self) -> dict[str, Path]:
        """Where the files of each root lie."""
        return code_folders(self.path)

    @property
    def task(self) -> Path:
        """The folder that replaces the task's."""
        return self.folders[""]

    def link(self, linked: dict[Path, int] | None = None) -> None:
        """Link what is in today's folders and no recorded file. Raises OSError.

        What was ``linked`` is left out, unless it is newer by now: a task may have removed it.
        """
        linked = {} if linked is None else linked
        for today, here in self._pairs:
            if not here.is_dir():
                continue
            for name in self._unrecorded(today, here):
                changed = (today / name).lstat().st_mtime_ns
                if linked.get(here / name) != changed:
                    _make_link(here / name, str(today / name))
                    linked[here / name] = changed
        task = Path(self.code.roots[""])
        for today, here in zip(task.parents, self.task.parents, strict=False):
            if here == self.path or not here.is_dir():
                break
            for name in self._named(today):
                _make_link(here / name, str(today / name))

    def is_mixed(self) -> bool:
        """Whether something else lies where a link must be, as in a copy of a study."""
        for today, here in self._pairs:
            for name in self._unrecorded(today, here):
                if (here / name).exists() and not (here / name).is_symlink():
                    return True
        return False

    @cached_property
    def _pairs(self) -> list[tuple[Path, Path]]:
        """Each of today's folders that holds recorded files, and the one in here."""
        pairs = dict[Path, Path]()
        for name in ("", *self.code.files):
            root, inner = split_name(name)
            if root not in self.code.roots:
                continue
            for folder in (Path(inner), *Path(inner).parents)[1 if inner else 0 :]:
                today = Path(self.code.roots[root], folder)
                if today.is_dir():
                    pairs[today] = self.folders[root] / folder
        return list(pairs.items())

    @cached_property
    def _recorded(self) -> set[Path]:
        """The recorded files, and the folders that hold some."""
        recorded = set[Path]()
        for name in self.code.files:
            root, inner = split_name(name)
            path = self.folders.get(root, self.path / root) / inner
            recorded |= {path, *path.parents}
        return recorded

    def _unrecorded(self, today: Path, here: Path) -> Iterator[str]:
        """The names of the folder's entries that are not recorded and do not hold a study."""
        for entry in os.scandir(today):
            recorded = entry.name in NOT_LINKED or here / entry.name in self._recorded
            if not recorded and not (entry.is_dir() and self._holds_study(Path(entry.path))):
                yield entry.name

    def _named(self, above: Path) -> Iterator[str]:
        """The entries of a folder above the task's that the task's files mention."""
        with suppress(OSError):  # a folder that cannot be listed
            for name in self._words & {path.name for path in above.iterdir()}:
                if name not in NOT_LINKED and not self._holds_study(above / name):
                    yield name

    @cached_property
    def _words(self) -> set[str]:
        """All words in the code and in the settings next to it."""
        texts = [content.decode("utf-8", "replace") for content in self.code.files.values()]
        texts += settings_texts(Path(self.code.roots[""]))
        return {word for text in texts for word in WORD.findall(text)}

    def _holds_study(self, path: Path) -> bool:
        """Whether the path contains this study or is another study: a copy that follows links would
        never end."""
        holds = os.path.realpath(self.study).startswith(os.path.join(os.path.realpath(path), ""))  # noqa: PTH118
        return holds or (path / STUDY_FILE).exists()


def settings_texts(folder: Path) -> list[str]:
    """The texts of small files of settings in the task's folder and in its ``conf/``."""
    texts = list[str]()
    for path in (*folder.glob("*"), *(folder / "conf").rglob("*")):
        with suppress(OSError):
            if path.suffix in SETTINGS and path.is_file() and path.stat().st_size <= LARGEST:
                texts.append(path.read_text("utf-8", "replace"))
    return texts


def ready_code(code: Code | None, study: Path) -> None:
    """Make the study's folder of this version fit for trials."""
    if code is None:
        return
    folder = CodeFolder(code, write_code(study, code), study)
    if folder.is_mixed() and not _others_run(study):
        set_code_aside(folder.path)
        folder = CodeFolder(code, write_code(study, code), study)
    remove_outdated_links(study)
    folder.link()


@contextmanager
def new_files_shown(code: Code | None, study: Path) -> Iterator[None]:
    """While trials run, link new files of the user's folder into theirs, such as a file that asks
    them to stop."""
    if code is None:
        yield
        return
    ended = threading.Event()
    folder = CodeFolder(code, code_place(study, code.digest), study)
    thread = threading.Thread(
        target=_show_new_files, args=(folder, ended), name="new files", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show_new_files(folder: CodeFolder, ended: threading.Event) -> None:
    linked: dict[Path, int] = {}
    pause_s = 0.0
    while not ended.wait(pause_s):
        began = time.monotonic()
        with suppress(
            OSError, DamagedFileError
        ):  # storage that fails for a while, or a study that was removed
            folder.link(linked)
        pause_s = max(NEW_FILES_EVERY_S, 20 * (time.monotonic() - began))


def _others_run(study: Path) -> bool:
    this_process = own_process()
    return any(runner.process != this_process for runner in runners(study))


def made_folder(code: Code, study: Path, lasting: bool) -> CodeFolder:
    """In the study, or in a temporary folder of this process where the study cannot be reached or
    written to."""
    if lasting and (study / STUDY_FILE).exists():
        with suppress(OSError, DamagedFileError):
            is_new = not code_place(study, code.digest).is_dir()
            folder = CodeFolder(code, write_code(study, code), study)
            if is_new:  # otherwise the sweep has linked it
                folder.link()
            return folder
    folder = CodeFolder(code, write_code(_own_folder(), code), study)
    folder.link()
    return folder


@cache
def _own_folder() -> Path:
    """Removed at the end of this process, or by a later one if this one is killed."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{own_process().birth}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def remove_outdated_links(study: Path) -> None:
    """Remove links to files that are gone from the user's folder: copies that follow links would
    fail there."""
    with suppress(OSError):  # a study that was removed, storage that fails
        for folder, folders, files in os.walk(study / CODE_FOLDER):
            for path in (Path(folder, name) for name in (*folders, *files)):
                if path.is_symlink() and not path.exists():
                    path.unlink(missing_ok=True)


def _make_link(path: Path, target: str) -> None:
    """Make a symbolic link at ``path``. Several processes may make the same one. A file that a task
    wrote stays."""
    if path.is_symlink() and str(path.readlink()) == target:
        return
    if path.exists() and not path.is_symlink():
        return
    temporary = path.with_name(f".{uuid.uuid4().hex}.link")
    temporary.symlink_to(target)
    temporary.replace(path)
