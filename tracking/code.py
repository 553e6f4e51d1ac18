"""One version of the user's code: his Python files, which a study keeps as a folder that never
changes.

``<study>/code/<hash>/`` has them as they lay in his folders; ``code.json`` says where within it.
All else that lies in there are links to his folders (``sweeps.worker.user_code.folder``). A study has
more than one version only if a person typed `--changed-code`.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from tracking.files import DamagedFileError, read_object, read_whole, unless_damaged
from tracking.uri import code_without_secrets

CODE_FOLDER = "code"
FILE_DIGITS = 12  # of a hash in names of files
INSTALLED = "@"
"""Before the name of an editable install, whose files lie in another folder than the task's."""
MANIFEST = "code.json"
FORM: dict[str, Any] = {"files": [str], "folders": {...: str}}
ABOVE = 2
"""How many folders above the task's a version has, too: a program may name files by ``..``."""


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

    def place(self, name: str) -> Path:
        """Where the file lies today."""
        root, inner = split_name(name)
        return Path(self.roots[root], inner)


def split_name(name: str) -> tuple[str, str]:
    """The root of a file, and its path there."""
    root, _, inner = name.partition("/") if name.startswith(INSTALLED) else ("", "", name)
    return root, inner


def code_place(study: Path, digest: str) -> Path:
    """The folder of this version."""
    return study / CODE_FOLDER / digest[:FILE_DIGITS]


def code_folders(place: Path) -> dict[str, Path]:
    """Where within the folder of a version the files of each root lie. Raises DamagedFileError."""
    folders = _manifest(place)["folders"]
    return {root: place / folder for root, folder in folders.items()}


def write_code(study: Path, code: Code) -> Path:
    """Keep the version, unless the study has it whole. A damaged one is set aside. Returns its
    folder."""
    place = code_place(study, code.digest)
    if unless_damaged(partial(read_code, study, code.digest), None) is not None:
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        _fill(temporary, code)
        if (
            not _renamed(temporary, place)
            and unless_damaged(partial(read_code, study, code.digest), None) is None
        ):
            set_code_aside(place)
            _renamed(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    read_code(study, code.digest)
    return place


def _renamed(temporary: Path, place: Path) -> bool:
    """False if the place is taken, perhaps by another process that was first."""
    try:
        temporary.rename(place)
    except OSError:
        return False
    return True


def read_code(study: Path, digest: str, roots: Mapping[str, str] | None = None) -> Code:
    """The version with this hash, in today's folders. Raises DamagedFileError if a file is missing
    or was changed."""
    place = code_place(study, digest)
    manifest = _manifest(place)
    files = dict[str, bytes]()
    for name in manifest["files"]:
        root, inner = split_name(name)
        path = place / manifest["folders"].get(root, root) / inner
        content = read_whole(path)
        if content is None:
            raise DamagedFileError(place, f"lacks {name}, with which the study was trained")
        files[name] = content
    code = Code(files, roots or {})
    if code.digest != digest:
        raise DamagedFileError(place, "holds other files than its name says")
    return code


def set_code_aside(place: Path) -> None:
    """Rename a folder that cannot be used: nothing in it is removed."""
    number = 1
    while os.path.lexists(place.with_name(f"{place.name}.aside-{number}")):
        number += 1
    with suppress(FileNotFoundError):
        place.rename(place.with_name(f"{place.name}.aside-{number}"))


def changed_files(before: Code, now: Code) -> list[str]:
    """The files that differ, were removed or are new."""
    names = sorted({*before.files, *now.files})
    return [name for name in names if before.files.get(name) != now.files.get(name)]


def code_diff(before: Code, now: Code, names: Collection[str]) -> Iterator[str]:
    """The lines of a unified diff of these files, without secrets."""
    for name in names:
        old = _lines(before, name)
        new = _lines(now, name)
        for line in unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""):
            yield code_without_secrets(line)


def _lines(code: Code, name: str) -> list[str]:
    return code.files.get(name, b"").decode("utf-8", "replace").splitlines()


def _manifest(place: Path) -> dict[str, Any]:
    manifest = read_object(place / MANIFEST, FORM)
    if manifest is None:
        raise DamagedFileError(place, "is missing, but the study was trained with it")
    return manifest


def _fill(folder: Path, code: Code) -> None:
    """Write all files, for reading alone; the manifest last."""
    folder.chmod(0o755)  # mkdtemp's 0700 would hide it from colleagues
    parts = Path(code.roots.get("", "")).parts[-ABOVE - 1 :]
    names = [part for part in parts if part != os.sep] or ["task"]
    folders = {"": "/".join(names), **{root: root for root in code.roots if root}}
    (folder / folders[""]).mkdir(parents=True)
    for name, content in code.files.items():
        root, inner = split_name(name)
        path = folder / folders.get(root, root) / inner
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o444)
    manifest = {"files": sorted(code.files), "folders": folders}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")
