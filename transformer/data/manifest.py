"""The files of a prepared folder with their checksums, so that damaged text is found before training."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sweeps.task import Problem, RefusedError
from transformer.config import digest

NAME = "manifest.json"


@dataclass(frozen=True)
class PreparedManifest:
    """Written last. ``blank`` training pairs were left out; ``files`` are {name: [bytes, SHA-256]}."""

    fingerprint: str
    blank: int
    files: dict[str, list[int | str]]

    @staticmethod
    def of(folder: Path, fingerprint: str, blank: int) -> "PreparedManifest":
        """The manifest of the files that are in ``folder`` now."""
        paths = sorted(folder.iterdir())
        return PreparedManifest(fingerprint, blank, {path.name: [path.stat().st_size, sha256(path)] for path in paths})

    def write(self, folder: Path) -> None:
        content = asdict(self)
        (folder / NAME).write_text(json.dumps({**content, "digest": digest(content)}, indent=1), "utf-8")

    def check_sizes(self, folder: Path) -> None:
        """Check cheaply that every file exists with its size. Raises RefusedError."""
        for name, (size, _) in self.files.items():
            path = folder / name
            if not path.is_file():
                raise damaged(folder, f"{name} is missing")
            if path.stat().st_size != size:
                raise damaged(folder, f"{name} has {path.stat().st_size} bytes instead of {size}")

    def check(self, folder: Path, name: str) -> None:
        """Check the file's content against its checksum. Raises RefusedError."""
        if name not in self.files:
            raise damaged(folder, f"{name} is not in the manifest")
        path = folder / name
        if not path.is_file() or sha256(path) != self.files[name][1]:
            raise damaged(folder, f"{name} was changed after it was prepared")


def read_manifest(folder: Path) -> PreparedManifest:
    """Raises RefusedError if it is missing or damaged."""
    try:
        content: dict[str, Any] = json.loads((folder / NAME).read_text("utf-8"))
        expected = content.pop("digest")
        if digest(content) != expected:
            raise ValueError
        return PreparedManifest(**content)
    except FileNotFoundError:
        raise damaged(folder, f"{NAME} is missing") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise damaged(folder, f"{NAME} was changed after it was prepared") from None


def damaged(folder: Path, what: str) -> RefusedError:
    """The refusal of prepared text that no longer matches its manifest."""
    allowed = "remove that folder; the same text is then prepared again"
    return RefusedError([Problem("paths.data", f"prepared text is damaged: {what}", allowed, None, str(folder))])


def sha256(path: Path) -> str:
    """SHA-256 of the file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
