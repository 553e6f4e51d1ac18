"""Versions of the user's code: Python files, which a study keeps in a folder that never changes.

``<study>/code/<hash>/`` has the files as they lay in the user's folders, and ``code.json`` says
where. Everything else in it is a link to these folders (``sweeps.worker.user_code.folder``). A
study has more than one version only if a person typed `--changed-code`.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
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
"""Before the name of an editable install, whose files are not in the task's folder."""
MANIFEST = "code.json"
FORM: dict[str, Any] = {"files": [str], "folders": {...: str}}
ABOVE = 2
"""How many folders above the task's a version includes: a program may name files by ``..``."""
VERSIONS = {"code": [str], "own_files": [str], "version": [str]}
"""What a voucher compares: the user's code, our own files, and the version of allelse. For each it
has the version that trained first and the one that trained again."""
KINDS = tuple(VERSIONS)
SCORES = "scores"
"""Whether the scores were the same, too: then both versions also score alike."""
VOUCHER: dict[str, Any] = {"trial": str, "ts": str, SCORES: bool, **VERSIONS}
"""A record in ``study.json`` of versions that trained the same weights, bit by bit, as ``allelse
sweep --vouch`` has shown."""


@dataclass(frozen=True, eq=False)
class Code:
    """``files`` by their path in the task's folder, or by ``@name/path`` for an editable install.

    ``roots`` are today's folders of these files: the task's is "", the others are ``@name``.
    """

    files: Mapping[str, bytes]
    roots: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all paths and contents."""
        lines = (f"{name}\0{sha256(self.files[name]).hexdigest()}\n" for name in sorted(self.files))
        return sha256("".join(lines).encode()).hexdigest()

    def place(self, name: str) -> Path:
        """Where the file is today."""
        root, inner = split_name(name)
        return Path(self.roots[root], inner)


def split_name(name: str) -> tuple[str, str]:
    """The root of a file, and its path there."""
    root, _, inner = name.partition("/") if name.startswith(INSTALLED) else ("", "", name)
    return root, inner


def code_place(study: Path, digest: str) -> Path:
    """The folder of this version."""
    return study / CODE_FOLDER / digest[:FILE_DIGITS]


def code_folders(folder: Path) -> dict[str, Path]:
    """The folder of each root's files within this version's folder. Raises DamagedFileError."""
    inner_folders = _manifest(folder)["folders"]
    return {root: folder / inner for root, inner in inner_folders.items()}


def write_code(study: Path, code: Code) -> Path:
    """Keep the version unless the study has it, and return its folder. Sets a damaged one aside."""
    folder = code_place(study, code.digest)
    if _has_code(study, code):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _fill(temporary, code)
        if not _rename(temporary, folder) and not _has_code(study, code):
            set_code_aside(folder)
            _rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    read_code(study, code.digest)
    return folder


def _has_code(study: Path, code: Code) -> bool:
    """Whether the study has the version undamaged."""
    return unless_damaged(partial(read_code, study, code.digest), None) is not None


def _rename(temporary: Path, folder: Path) -> bool:
    """Returns False if the folder exists, perhaps since another process was first."""
    try:
        temporary.rename(folder)
    except OSError:
        return False
    return True


def read_code(study: Path, digest: str, roots: Mapping[str, str] | None = None) -> Code:
    """The version with this hash, in today's folders. Raises DamagedFileError if a file is missing
    or was changed."""
    folder = code_place(study, digest)
    manifest = _manifest(folder)
    files = dict[str, bytes]()
    for name in manifest["files"]:
        root, inner = split_name(name)
        path = folder / manifest["folders"].get(root, root) / inner
        content = read_whole(path)
        if content is None:
            raise DamagedFileError(folder, f"lacks {name}, which the study was trained with")
        files[name] = content
    code = Code(files, roots or {})
    if code.digest != digest:
        raise DamagedFileError(folder, "holds different files than its name says")
    return code


def set_code_aside(folder: Path) -> None:
    """Rename a folder that can't be used. Nothing in it is removed."""
    number = 1
    while os.path.lexists(folder.with_name(f"{folder.name}.aside-{number}")):
        number += 1
    with suppress(FileNotFoundError):
        folder.rename(folder.with_name(f"{folder.name}.aside-{number}"))


def changed_files(old: Code, new: Code) -> list[str]:
    """The files that differ, were removed or are new."""
    names = sorted({*old.files, *new.files})
    return [name for name in names if old.files.get(name) != new.files.get(name)]


def code_diff(old: Code, new: Code, names: Collection[str]) -> Iterator[str]:
    """The lines of a unified diff of these files, without secrets."""
    for name in names:
        old_lines = _lines(old, name)
        new_lines = _lines(new, name)
        for line in unified_diff(old_lines, new_lines, f"a/{name}", f"b/{name}", lineterm=""):
            yield code_without_secrets(line)


def _lines(code: Code, name: str) -> list[str]:
    return code.files.get(name, b"").decode("utf-8", "replace").splitlines()


def _manifest(folder: Path) -> dict[str, Any]:
    manifest = read_object(folder / MANIFEST, FORM)
    if manifest is None:
        raise DamagedFileError(folder, "is missing, but the study was trained with it")
    return manifest


def _fill(folder: Path, code: Code) -> None:
    """Write all files read-only, and the manifest last."""
    folder.chmod(0o755)  # mkdtemp's 0700 would hide it from colleagues
    parts = Path(code.roots.get("", "")).parts[-ABOVE - 1 :]
    names = [part for part in parts if part != os.sep] or ["task"]
    folders = {root: root for root in code.roots if root}
    folders = {"": "/".join(names), **folders}
    (folder / folders[""]).mkdir(parents=True)
    for name, content in code.files.items():
        root, inner = split_name(name)
        path = folder / folders.get(root, root) / inner
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o444)
    manifest = {"files": sorted(code.files), "folders": folders}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")


class SameCode:
    """The versions that count as one: their vouchers show the same weights. With ``scoring``, also
    the same scores."""

    def __init__(self, vouchers: Iterable[Mapping[str, Any]], scoring: bool = False) -> None:
        self._groups: list[list[str]] = []
        for voucher in vouchers:
            if voucher[SCORES] or not scoring:
                for subject in KINDS:
                    if voucher[subject]:
                        self._join(voucher[subject])

    def first(self, version: str) -> str:
        """The oldest version that is the same."""
        for group in self._groups:
            if version in group:
                return group[0]
        return version

    def are_same(self, version: str, second_version: str) -> bool:
        return self.first(version) == self.first(second_version)

    def _join(self, versions: list[str]) -> None:
        """Merge these versions with the groups that have any of them."""
        merged: list[str] = []
        separate = []
        for group in self._groups:
            if set(group).isdisjoint(versions):
                separate.append(group)
            else:
                merged += group
        merged += versions
        self._groups = [*separate, list(dict.fromkeys(merged))]
