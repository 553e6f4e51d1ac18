"""What a prepared folder holds, file by file: damaged text is told from whole text before anything trains on it."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transformer.config import digest
from transformer.schema import Problem, RefusedError

NAME = "manifest.json"


@dataclass(frozen=True)
class PreparedManifest:
    """Written last. ``blank`` pairs of train were left out; ``files`` are {name: [bytes, SHA-256]}."""

    fingerprint: str
    blank: int
    files: dict[str, list[int | str]]

    @staticmethod
    def of(folder: Path, fingerprint: str, blank: int) -> "PreparedManifest":
        """That of the files which are in ``folder`` now."""
        paths = sorted(folder.iterdir())
        return PreparedManifest(fingerprint, blank, {path.name: [path.stat().st_size, sha256(path)] for path in paths})

    def write(self, folder: Path) -> None:
        content = asdict(self)
        (folder / NAME).write_text(json.dumps({**content, "digest": digest(content)}, indent=1), "utf-8")

    def check_sizes(self, folder: Path) -> None:
        """Every file is there with its size, which is cheap to know. Raises RefusedError."""
        for name, (size, _) in self.files.items():
            path = folder / name
            if not path.is_file():
                raise damaged(folder, f"{name} is missing")
            if path.stat().st_size != size:
                raise damaged(folder, f"{name} has {path.stat().st_size} bytes, and was written with {size}")

    def check(self, folder: Path, name: str) -> None:
        """The file's content is what was written. Raises RefusedError."""
        if name not in self.files:
            raise damaged(folder, f"{name} was never part of it")
        path = folder / name
        if not path.is_file() or sha256(path) != self.files[name][1]:
            raise damaged(folder, f"{name} differs from what was written")


def read_manifest(folder: Path) -> PreparedManifest | None:
    """None for text that was prepared before there were manifests. Raises RefusedError if it is damaged."""
    try:
        content: dict[str, Any] = json.loads((folder / NAME).read_text("utf-8"))
        expected = content.pop("digest")
        if digest(content) != expected:
            raise ValueError
        return PreparedManifest(**content)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise damaged(folder, f"{NAME} differs from what was written") from None


def damaged(folder: Path, what: str) -> RefusedError:
    """The refusal of prepared text that no longer is what it was."""
    allowed = "must be as it was prepared; remove that folder, and the same text is prepared again"
    return RefusedError([Problem("paths.data", f"prepared text is damaged: {what}", allowed, None, str(folder))])


def sha256(path: Path) -> str:
    """Of the file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
