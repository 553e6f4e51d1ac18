"""The folder of a study's code as trials use it: Python files as recorded, and links to all else of today's folders.

Processes of trials run in there (``code_imports``). What a task writes beside its files shows in the user's folder, and
is moved there once no trial runs.
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
from sweeps.processes.times import SHARED_EVERY_S
from tracking.attempts import own_process, runners
from tracking.code import Code, code_folders, code_place, set_code_aside, split_name, write_code
from tracking.files import DamagedFileError
from tracking.study import STUDY_FILE

NOT_LINKED = ("__pycache__", ".git")
"""A link to the second would make git take the folder for the user's."""
WORD = re.compile(r"[\w.-]+")
SETTINGS = (".yaml", ".yml", ".toml", ".json", ".cfg", ".ini", ".sh")
"""Files that may name modules and folders, besides Python's."""
LARGEST = 1 << 16  # bytes of such a file; longer ones hold data


@dataclass(frozen=True, eq=False)
class CodeFolder:
    """One version of the user's code, at ``place`` in a study. ``study`` is never linked into itself."""

    code: Code
    place: Path
    study: Path

    @cached_property
    def folders(self) -> dict[str, Path]:
        """Where the files of each root lie."""
        return code_folders(self.place)

    @property
    def task(self) -> Path:
        """The folder that stands for the task's."""
        return self.folders[""]

    def link(self, linked: dict[Path, int] | None = None) -> None:
        """Link what is in today's folders and no recorded file. Raises OSError.

        What was ``linked`` is left out, unless it is newer by now: a task may have removed it.
        """
        linked = {} if linked is None else linked
        for today, here in self._pairs:
            for name in self._unrecorded(today, here) if here.is_dir() else ():
                changed = (today / name).lstat().st_mtime_ns
                if linked.get(here / name) != changed:
                    _make_link(here / name, str(today / name))
                    linked[here / name] = changed
        task = Path(self.code.roots[""])
        for today, here in zip(task.parents, self.task.parents, strict=False):
            if here == self.place or not here.is_dir():
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

    def show(self) -> None:
        """Link what a task has written beside its files into the user's folder, as long as it is there."""
        with suppress(OSError):  # of a user's folder that is read-only
            for path, today in self._written():
                if not os.path.lexists(today):
                    today.symlink_to(path)
            self._remove_dangling()

    def _remove_dangling(self) -> None:
        """Of what was shown and then removed by the task."""
        for today, here in self._pairs:
            for path in [*today.iterdir()]:
                if path.is_symlink() and path.readlink() == here / path.name and not path.exists():
                    path.unlink()

    def give_back(self) -> None:
        """Move what a task has written beside its files to the user's folder, and link it."""
        for path, today in self._written():
            if today.is_symlink() and today.readlink() == path:  # it was shown
                today.unlink()
            if _is_newer(path, today):
                with suppress(OSError):  # of a user's folder that is read-only
                    shutil.move(path, today)
                    path.symlink_to(today)
        with suppress(OSError):
            self._remove_dangling()

    def _written(self) -> Iterator[tuple[Path, Path]]:
        """What a task has written here, but for modules, and where it belongs."""
        for today, here in self._pairs:
            for path in [*here.iterdir()] if here.is_dir() else ():
                written = not (path.is_symlink() or path.name in NOT_LINKED or self._has(path))
                if written and path.suffix != ".py":
                    yield path, today / path.name

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

    def _has(self, path: Path) -> bool:
        """Whether this is a recorded file, or a folder with some."""
        return path in self._recorded

    @cached_property
    def _recorded(self) -> set[Path]:
        recorded = set[Path]()
        for name in self.code.files:
            root, inner = split_name(name)
            path = self.folders.get(root, self.place / root) / inner
            recorded |= {path, *path.parents}
        return recorded

    def _unrecorded(self, today: Path, here: Path) -> Iterator[str]:
        """The names of a folder's entries that are neither recorded nor hold a study."""
        for entry in os.scandir(today):
            recorded = entry.name in NOT_LINKED or self._has(here / entry.name)
            if not recorded and not (entry.is_dir() and self._holds_study(Path(entry.path))):
                yield entry.name

    def _named(self, above: Path) -> Iterator[str]:
        """Of a folder above the task's, the entries that its files name."""
        with suppress(OSError):  # a folder that cannot be listed
            for name in self._words & {path.name for path in above.iterdir()}:
                if name not in NOT_LINKED and not self._holds_study(above / name):
                    yield name

    @cached_property
    def _words(self) -> set[str]:
        """All words of the code, and of the settings beside it."""
        texts = [content.decode("utf-8", "replace") for content in self.code.files.values()]
        texts += settings_texts(Path(self.code.roots[""]))
        return {word for text in texts for word in WORD.findall(text)}

    def _holds_study(self, path: Path) -> bool:
        """Whether the study lies there, or is another one: who copies with links would never end."""
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
    """Make the study's folder of this version fit for trials. Where another process runs trials, their files stay."""
    if code is None:
        return
    folder = CodeFolder(code, write_code(study, code), study)
    if not _others_run(study):
        folder.give_back()  # what a sweep that was killed has left
        if folder.is_mixed():
            set_code_aside(folder.place)
            folder = CodeFolder(code, write_code(study, code), study)
    folder.link()


@contextmanager
def shared_files(code: Code | None, study: Path) -> Iterator[None]:
    """While trials run: what they write beside their files shows in the user's folder, and what comes there in theirs.

    At the end it is moved there.
    """
    if code is None:
        yield
        return
    ended = threading.Event()
    folder = CodeFolder(code, code_place(study, code.digest), study)
    sharing = threading.Thread(target=_share, args=(folder, ended), name="shared files", daemon=True)
    sharing.start()
    try:
        yield
    finally:
        ended.set()
        sharing.join()
        give_back(code, study)


def _share(folder: CodeFolder, ended: threading.Event) -> None:
    pause_s, linked = 0.0, dict[Path, int]()
    while not ended.wait(pause_s):
        began = time.monotonic()
        with suppress(OSError, DamagedFileError):  # storage that fails for a while, or a study that was removed
            folder.link(linked)
            folder.show()
        pause_s = max(SHARED_EVERY_S, 20 * (time.monotonic() - began))


def give_back(code: Code | None, study: Path) -> None:
    """Move what trials wrote beside their files to the user's folder, unless another process still runs trials."""
    if code is None or _others_run(study):
        return
    for home in (study, _own_folder()):
        place = code_place(home, code.digest)
        if place.is_dir():
            with suppress(OSError, DamagedFileError):  # a study that was removed, storage that fails
                CodeFolder(code, place, study).give_back()


def _others_run(study: Path) -> bool:
    own = own_process()
    return any(runner.process != own for runner in runners(study))


def made_folder(code: Code, study: Path, lasting: bool) -> CodeFolder:
    """In the study, or in a temporary folder of this process where the study cannot be reached or written to."""
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


def _make_link(path: Path, target: str) -> None:
    """Several processes may make the same one. What a task has written stays."""
    if path.is_symlink() and str(path.readlink()) == target:
        return
    if path.exists() and not path.is_symlink():
        return
    temporary = path.with_name(f".{uuid.uuid4().hex}.link")
    temporary.symlink_to(target)
    temporary.replace(path)


def _is_newer(path: Path, today: Path) -> bool:
    """Whether a written file may replace the user's; a folder may not."""
    if not os.path.lexists(today):
        return True
    both_files = path.is_file() and today.is_file()
    return both_files and path.stat().st_mtime_ns > today.stat().st_mtime_ns
