"""The files of one checkpoint, on any fsspec filesystem: ``state.pt``, then ``manifest.json`` with its checksum.

The manifest is written last: a folder without one was never finished. It names the trial and has its own checksum.
On a local disk each file also appears completely or not at all. A state is plain: dicts, lists and tuples of tensors,
numbers, strings and None; loading runs no code.
"""

import contextlib
import hashlib
import io
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

import torch
from fsspec.implementations.local import LocalFileSystem
from torch import Tensor

from sweeps.processes.storage import unless_in_use

SavedState = dict[str, Any]
CHECKSUM = "manifest_sha256"  # of the manifest's other fields
TEMPORARY = ".tmp"  # suffix of an incomplete file


class DamagedError(Exception):
    """The damage of a checkpoint that was once finished, in one line."""


@dataclass(frozen=True)
class CheckpointManifest:
    """``sha256`` and ``bytes`` describe ``state.pt``; ``dev_nll`` in nats per target piece, None if not evaluated.

    ``key`` is the trial's. ``stop`` marks a checkpoint that an uninterrupted run would not have: training was stopped
    there. A resume uses it, an average never does.
    """

    step: int
    key: str
    sha256: str
    bytes: int
    dev_nll: float | None
    stop: bool


def on_host(value: Any) -> Any:
    """A copy of a plain state, every tensor in host memory. Raises TypeError for values that are not plain."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: on_host(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_host(item) for item in value)
    if type(value) in (bool, int, float, str, type(None)):  # a subclass, such as NumPy's float64, is not plain
        return value
    raise TypeError(f"a checkpoint holds tensors and plain values, but found a {type(value).__name__}: {value!r}")


def write(
    filesystem: Any, folder: str, step: int, key: str, state: SavedState, dev_nll: float | None, stop: bool
) -> None:
    """Write a complete checkpoint; the state is serialized straight into the file and hashed on the way."""
    filesystem.makedirs(folder, exist_ok=True)
    with _opened(filesystem, f"{folder}/state.pt") as file:
        sink = _Hashing(file)
        torch.save(state, cast(IO[bytes], sink))
        if sink.error:
            raise sink.error
    evaluated = dev_nll if dev_nll is not None and math.isfinite(dev_nll) else None  # JSON has no NaN
    fields = asdict(CheckpointManifest(step, key, sink.sha256.hexdigest(), sink.bytes, evaluated, stop))
    with _opened(filesystem, f"{folder}/manifest.json") as file:
        file.write(_canonical(fields | {CHECKSUM: _checksum(fields)}))


def read_manifest(filesystem: Any, folder: str) -> CheckpointManifest | None:
    """The manifest; None if the checkpoint was never finished. Raises DamagedError."""
    try:
        content = filesystem.cat_file(f"{folder}/manifest.json")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fields = json.loads(content)
        checksum = fields.pop(CHECKSUM, None)
        manifest = CheckpointManifest(**fields)
    except Exception:  # the parser raises many kinds for damaged bytes
        raise DamagedError("manifest.json cannot be read") from None
    if checksum != _checksum(fields):
        raise DamagedError("manifest.json does not match its checksum")
    return manifest


def _checksum(fields: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(fields)).hexdigest()


def _canonical(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def check(filesystem: Any, folder: str, manifest: CheckpointManifest) -> None:
    """Raises DamagedError unless ``state.pt`` matches its checksum. The file is read in parts, to save memory."""
    path = f"{folder}/state.pt"
    try:
        _check_size(filesystem.size(path), manifest)
        with filesystem.open(path, "rb") as file:
            _check_sha256(hashlib.file_digest(file, "sha256").hexdigest(), manifest)
    except FileNotFoundError:
        raise DamagedError("state.pt is missing") from None


def load(filesystem: Any, folder: str, manifest: CheckpointManifest) -> SavedState:
    """The state, on the CPU, from exactly the bytes that were checked; none of its code runs. Raises DamagedError."""
    try:
        content = filesystem.cat_file(f"{folder}/state.pt")
    except FileNotFoundError:
        raise DamagedError("state.pt is missing") from None
    _check_size(len(content), manifest)
    _check_sha256(hashlib.sha256(content).hexdigest(), manifest)
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception:  # torch raises many kinds for bytes that are not a state
        raise DamagedError("state.pt is refused: it holds more than tensors and plain values") from None
    if not isinstance(state, dict):
        raise DamagedError(f"state.pt is refused: it must hold a dict, but holds a {type(state).__name__}")
    return state


def _check_size(found: int, manifest: CheckpointManifest) -> None:
    if found != manifest.bytes:
        raise DamagedError(f"state.pt has {found} bytes, but {manifest.bytes} were written")


def _check_sha256(found: str, manifest: CheckpointManifest) -> None:
    if found != manifest.sha256:
        raise DamagedError("state.pt does not match the checksum in its manifest")


def remove(filesystem: Any, folder: str) -> None:
    """Remove the manifest first: a crash in between leaves an unfinished checkpoint, not a damaged one."""
    with unless_in_use():
        filesystem.rm(f"{folder}/manifest.json")
    with unless_in_use():
        filesystem.rm(folder, recursive=True)


class _Hashing:
    """Hashes and counts the bytes that torch writes into a file.

    An error is kept for the caller, because torch would replace it with an error about its archive.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.sha256, self.bytes = file, hashlib.sha256(), 0
        self.error: Exception | None = None

    def write(self, data: memoryview) -> int:
        if self.error is None:
            try:
                self.file.write(data)
            except Exception as error:
                self.error = error
        self.sha256.update(data)
        self.bytes += len(data)
        return len(data)

    def flush(self) -> None:
        """torch calls it; the file is flushed when it is closed."""


@contextlib.contextmanager
def _opened(filesystem: Any, path: str) -> Iterator[IO[bytes]]:
    """A file to write; on a local disk it gets its name after all its bytes are on the disk."""
    if not isinstance(filesystem, LocalFileSystem):
        with filesystem.open(path, "wb") as file:
            yield file
        return
    temporary = Path(path + TEMPORARY)
    with temporary.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_folder(temporary.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # without it, a power cut may lose the new name
    finally:
        os.close(descriptor)
