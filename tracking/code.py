"""The user's code as a study recorded it: the bytes of his Python files, by the hash of all of them.

``<study>/code/<hash>.zip`` is one version. A study has more than one only if a person typed `--changed-code`.
"""

import hashlib
import io
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import cached_property, partial
from pathlib import Path

from tracking.damage import DamagedFileError, unless_damaged
from tracking.files import read_whole, write_atomic
from tracking.uri import code_without_secrets

FOLDER = "code"
SHOWN = 12  # digits of a hash
INSTALLED = "@"
"""Before the name of an editable install, whose files lie in another folder than the task's."""
EPOCH = (1980, 1, 1, 0, 0, 0)  # a zip's first moment: equal files make equal archives


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
        lines = (f"{name}\0{hashlib.sha256(self.files[name]).hexdigest()}\n" for name in sorted(self.files))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

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
    """The version with this hash, for the folders of today. Raises DamagedFileError if its file is gone or another."""
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


def diff(before: Code, now: Code, names: Collection[str]) -> Iterator[str]:
    """The lines of a unified diff of these files, without secrets."""
    for name in names:
        old, new = (each.files.get(name, b"").decode("utf-8", "replace").splitlines() for each in (before, now))
        for line in unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""):
            yield code_without_secrets(line)


def _path(study: Path, digest: str) -> Path:
    return study / FOLDER / f"{digest[:SHOWN]}.zip"
