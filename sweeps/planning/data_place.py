"""Where the prepared data of a task lies, which copy it is, and whether it is whole."""

import hashlib
import json
from pathlib import Path
from typing import Any

from sweeps.processes.alive import alive
from sweeps.schema import Problem, RefusedError
from sweeps.task import Task
from tracking.provenance import prepared_place

MANIFEST = "prepared.json"


def data_place(task: Task[Any], folder: Path, fingerprint: str) -> Path:
    """Below ``paths.data``, prepared or not. A task that prepares nothing reads that folder itself."""
    if task.prepare is None:
        return folder
    return prepared_place(folder, task.name, fingerprint)


def identity(task: Task[Any], folder: Path, fingerprint: str) -> str:
    """What tells the prepared data from another copy of it; "" if nothing is prepared. Raises RefusedError."""
    place = data_place(task, folder, fingerprint)
    return "" if task.prepare is None or not place.is_dir() else str(_manifest(place)["digest"])


def write_manifest(folder: Path, fingerprint: str) -> None:
    """Size and SHA-256 of every file; written last, so that data without it is not whole."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): [path.stat().st_size, _sha256(path)] for path in paths}
    content = {"fingerprint": fingerprint, "files": files}
    (folder / MANIFEST).write_text(json.dumps({**content, "digest": _digest(content)}, indent=1), "utf-8")


def check_whole(place: Path, fingerprint: str) -> str:
    """The identity of the data, if every file is as it was prepared: that takes a second per gigabyte.

    Raises RefusedError with the first file that is not.
    """
    manifest = _manifest(place)
    if manifest["fingerprint"] != fingerprint:
        raise _damaged(place, f"its fingerprint is {manifest['fingerprint']:.80}")
    for name, (size, sha256) in manifest["files"].items():
        path = place / name
        if not path.is_file():
            raise _damaged(place, f"{name} is missing")
        if path.stat().st_size != size:
            raise _damaged(place, f"{name} has {path.stat().st_size} bytes instead of {size}")
        if _sha256(path) != sha256:
            raise _damaged(place, f"{name} was changed after it was prepared")
    return str(manifest["digest"])


def _manifest(place: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((place / MANIFEST).read_text("utf-8"))
        if _digest({name: manifest[name] for name in ("fingerprint", "files")}) != manifest["digest"]:
            raise ValueError
        return manifest
    except FileNotFoundError:
        raise _damaged(place, f"{MANIFEST} is missing") from None
    except (ValueError, TypeError, KeyError):
        raise _damaged(place, f"{MANIFEST} was changed after it was prepared") from None


def _damaged(place: Path, what: str) -> RefusedError:
    allowed = "remove that folder; the same data is then prepared again"
    return RefusedError([Problem("paths.data", f"prepared data is damaged: {what}", allowed, None, str(place))])


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256(path: Path) -> str:
    alive()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
