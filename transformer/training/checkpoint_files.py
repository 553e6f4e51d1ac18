"""The files of one checkpoint, on any fsspec filesystem: ``state.pt``, then ``manifest.json`` with its checksum.

The manifest is written last: a folder without one was never finished. On a local disk each file also appears whole
or not at all. A state is plain: dicts, lists and tuples of tensors, numbers, words and None; loading runs no code.
"""

import hashlib
import json
import math
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

import torch
from fsspec.implementations.local import LocalFileSystem
from torch import Tensor

State = dict[str, Any]


class DamagedError(Exception):
    """What is wrong with a checkpoint that was once finished, in one line."""


@dataclass(frozen=True)
class Manifest:
    """``sha256`` and ``bytes`` are those of ``state.pt``; ``dev_nll`` in nats a target piece, None if not judged."""

    step: int
    sha256: str
    bytes: int
    dev_nll: float | None = None


def on_host(value: Any) -> Any:
    """A copy of a plain state, every tensor in host memory. Raises TypeError for what is not plain."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: on_host(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_host(item) for item in value)
    if type(value) in (bool, int, float, str, type(None)):  # a subclass, such as NumPy's float64, is not plain
        return value
    raise TypeError(f"a checkpoint holds tensors and plain values, but found a {type(value).__name__}: {value!r}")


def write(filesystem: Any, folder: str, step: int, state: State, dev_nll: float | None) -> None:
    """Write a whole checkpoint; the state is serialised into the file, and hashed on its way."""
    filesystem.makedirs(folder, exist_ok=True)
    with _opened(filesystem, f"{folder}/state.pt") as file:
        sink = _Hashing(file)
        torch.save(state, cast(IO[bytes], sink))
        if sink.error:
            raise sink.error
    judged = dev_nll if dev_nll is not None and math.isfinite(dev_nll) else None  # JSON knows no NaN
    manifest = Manifest(step, sink.sha256.hexdigest(), sink.bytes, judged)
    with _opened(filesystem, f"{folder}/manifest.json") as file:
        file.write(json.dumps(asdict(manifest)).encode())


def read_manifest(filesystem: Any, folder: str) -> Manifest | None:
    """None where there is none: the checkpoint was never finished. Raises DamagedError."""
    try:
        content = json.loads(filesystem.cat_file(f"{folder}/manifest.json"))
        nll = content.get("dev_nll")
        return Manifest(
            int(content["step"]), str(content["sha256"]), int(content["bytes"]), None if nll is None else float(nll)
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DamagedError("manifest.json cannot be read") from None


def check(filesystem: Any, folder: str, manifest: Manifest) -> None:
    """Raises DamagedError unless ``state.pt`` is what was written."""
    path = f"{folder}/state.pt"
    try:
        size = filesystem.size(path)
        if size != manifest.bytes:
            raise DamagedError(f"state.pt has {size} bytes, but {manifest.bytes} were written")
        with filesystem.open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise DamagedError("state.pt is missing") from None
    if found != manifest.sha256:
        raise DamagedError("state.pt does not have the checksum of its manifest")


def load(filesystem: Any, folder: str) -> State:
    """The state, on the CPU; no code of the file is run. Raises DamagedError."""
    try:
        with filesystem.open(f"{folder}/state.pt", "rb") as file:
            state: State = torch.load(file, map_location="cpu", weights_only=True)
            return state
    except FileNotFoundError:
        raise DamagedError("state.pt is missing") from None
    except (pickle.UnpicklingError, RuntimeError):
        raise DamagedError("state.pt is refused: it holds something else than tensors and plain values") from None


def remove(filesystem: Any, folder: str) -> None:
    """The manifest first: who dies in between leaves an unfinished checkpoint, not a damaged one."""
    filesystem.rm(f"{folder}/manifest.json")
    filesystem.rm(folder, recursive=True)


class _Hashing:
    """What torch writes into a file, hashed and counted.

    An error is kept for the caller, because torch would cover it with one of its own about its archive.
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
        """torch asks for it; the file is flushed when it is closed."""


@contextmanager
def _opened(filesystem: Any, path: str) -> Iterator[IO[bytes]]:
    """A file to write; on a local disk it gets its name when all of it is safe there."""
    if not isinstance(filesystem, LocalFileSystem):
        with filesystem.open(path, "wb") as file:
            yield file
        return
    temporary = Path(f"{path}.tmp")
    with temporary.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_folder(temporary.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # without it a power cut may forget the new name
    finally:
        os.close(descriptor)
