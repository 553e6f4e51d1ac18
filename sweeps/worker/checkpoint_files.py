"""The files of checkpoints at any fsspec place: parts, the manifest, which is written last, and whose they are.

A state is an outline in the manifest, and its tensors and arrays by path in safetensors. None is ever read by executing
it. Nothing here imports torch or NumPy: a state that holds none needs none.
"""

import errno
import hashlib
import json
import math
import os
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from sweeps.processes.storage import alive, unless_in_use
from sweeps.task import StateError
from sweeps.worker.events import Report

MANIFEST = "manifest.json"
TEMPORARY = ".part"  # suffix of a file that is being written
SUM = "sha256"  # of the manifest's other fields


class DamagedCheckpointError(ValueError):
    """A checkpoint that cannot be used, and why."""


@dataclass(frozen=True)
class Manifest:
    """``files``: bytes and SHA-256 by name. ``reports``: those up to the step that the journal may lack on disk.

    ``score`` decides the best, the lowest one. ``outline`` is the state's; None with the task's own ``save``.
    """

    key: str
    step: int
    seconds: float  # of training so far
    score: float | None = None
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    outline: Any = None
    reports: tuple[Report, ...] = ()

    def content(self) -> bytes:
        fields = asdict(self)
        return _canonical(fields | {SUM: hashlib.sha256(_canonical(fields)).hexdigest()})

    @property
    def digest(self) -> str:
        """Tells this checkpoint from any other one."""
        return hashlib.sha256(self.content()).hexdigest()

    @staticmethod
    def of(content: bytes) -> "Manifest":
        """Raises DamagedCheckpointError."""
        try:
            fields = json.loads(content)
            expected = fields.pop(SUM)
            if hashlib.sha256(_canonical(fields)).hexdigest() != expected:
                raise DamagedCheckpointError(f"{MANIFEST} does not match its checksum")
            files = {name: (int(size), str(digest)) for name, (size, digest) in fields["files"].items()}
            reports = tuple(Report(**report) for report in fields["reports"])
            return Manifest(**fields | {"files": files, "reports": reports})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, DamagedCheckpointError):
                raise
            raise DamagedCheckpointError(f"{MANIFEST} cannot be read") from None


def _canonical(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def finite(score: float | None) -> float | None:
    """None for a score that decides nothing."""
    return score if score is not None and math.isfinite(score) else None


class CheckpointFiles:
    """Reads and writes checkpoints by their folder."""

    def __init__(self, filesystem: Any) -> None:
        self.filesystem = filesystem

    def write(self, folder: str, manifest: Manifest, parts: Mapping[str, bytes]) -> None:
        """A folder without a manifest was never finished."""
        self.filesystem.makedirs(folder, exist_ok=True)
        for name, content in parts.items():
            self.filesystem.makedirs(f"{folder}/{name}".rpartition("/")[0], exist_ok=True)
            self._put(f"{folder}/{name}", content)
            alive()  # who waits for the write does not hang
        self._put(f"{folder}/{MANIFEST}", manifest.content())

    def manifest(self, folder: str) -> Manifest | None:
        """None if the checkpoint was never finished. Raises DamagedCheckpointError."""
        try:
            return Manifest.of(self.filesystem.cat_file(f"{folder}/{MANIFEST}"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            raise DamagedCheckpointError(f"{MANIFEST} is a folder") from None

    def parts(self, folder: str, manifest: Manifest) -> dict[str, bytes]:
        """The content of each file, whole. Raises DamagedCheckpointError."""
        return {name: self._whole(folder, name, *about) for name, about in manifest.files.items()}

    def remove(self, folder: str) -> None:
        """The manifest first: what a crash or an open file leaves is an unfinished checkpoint, not a damaged one."""
        for path in (f"{folder}/{MANIFEST}", folder):
            with unless_in_use():
                self.filesystem.rm(path, recursive=True)

    def numbers(self, folder: str, prefix: str) -> Iterator[int]:
        """The numbers of the entries ``<prefix><number>``."""
        try:
            paths = self.filesystem.ls(folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return
        for path in paths:
            name = path.rstrip("/").rpartition("/")[2]
            if name.startswith(prefix) and name[len(prefix) :].isdecimal():
                yield int(name[len(prefix) :])

    def _whole(self, folder: str, name: str, size: int, digest: str) -> bytes:
        try:
            content: bytes = self.filesystem.cat_file(f"{folder}/{name}")
        except (FileNotFoundError, IsADirectoryError):
            raise DamagedCheckpointError(f"{name} is missing") from None
        if len(content) != size:
            raise DamagedCheckpointError(f"{name} has {len(content)} bytes, but {size} were written")
        if hashlib.sha256(content).hexdigest() != digest:
            raise DamagedCheckpointError(f"{name} does not match its checksum")
        return content

    def _put(self, path: str, content: bytes) -> None:
        """On a local disk a file has its name once all of it is on the disk, so that a power cut takes no file of
        which an older one is removed."""
        if not isinstance(self.filesystem, LocalFileSystem):
            self.filesystem.pipe_file(path, content)
            return
        temporary = Path(f"{path}{TEMPORARY}")
        with temporary.open("wb") as file:
            file.write(content)
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


def described(parts: Mapping[str, bytes]) -> dict[str, tuple[int, str]]:
    return {name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in parts.items()}


OWNER = "owner.json"
"""Next to the folders of attempts: the newest one, which owns them."""


class SupersededError(Exception):
    """A newer attempt owns the checkpoints, in one line."""


class Owner:
    """Whether an attempt owns the checkpoints. One that never claimed them, such as a verb, checks nothing.

    A worker that was cut off may live on and write while its successor trains. Once it sees the successor's claim, it
    neither writes nor removes anything.
    """

    def __init__(self, filesystem: Any, root: str, attempt: int) -> None:
        self.filesystem, self.path = filesystem, f"{root}/{OWNER}"
        self.root, self.mine, self.claimed = root, {"attempt": attempt, "run": ""}, False

    def claim(self, run: str) -> None:
        """Own the checkpoints from now on. ``run`` is the same for all attempts of one sweep, and new for the next.

        Raises SupersededError if this attempt starts after its own successor.
        """
        self.mine["run"] = run
        found = self._found()
        if found and found["run"] == self.mine["run"] and found["attempt"] > self.mine["attempt"]:
            raise self._superseded(found)
        self.filesystem.makedirs(self.root, exist_ok=True)
        self.filesystem.pipe_file(f"{self.path}.part", json.dumps(self.mine).encode())
        self.filesystem.mv(f"{self.path}.part", self.path)
        self.claimed = True

    def check(self) -> None:
        """Raises SupersededError once another attempt has claimed the checkpoints.

        The claim of an earlier attempt of this sweep is one from before ours: the storage shows an older state.
        Raises OSError if the claim of this process is gone: the storage is away or was emptied.
        """
        if not self.claimed:
            return
        found = self._found()
        if found is None and not self.filesystem.exists(self.path):
            raise OSError(errno.ESTALE, "the claim of this attempt is gone", self.path)
        earlier = found and found["run"] == self.mine["run"] and found["attempt"] < self.mine["attempt"]
        if found and found != self.mine and not earlier:
            raise self._superseded(found)

    def _found(self) -> dict[str, Any] | None:
        """The newest claim; None without one, or if its file is damaged."""
        try:
            found = json.loads(self.filesystem.cat_file(self.path))
            return {"attempt": int(found["attempt"]), "run": str(found["run"])}
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return None

    def _superseded(self, found: dict[str, Any]) -> SupersededError:
        return SupersededError(f"attempt {found['attempt']} owns {self.root}, so attempt {self.mine['attempt']} ends")


TENSORS, ARRAYS = "tensors.safetensors", "arrays.safetensors"
REFERENCE_MARK = "$"
"""The key of an entry of the outline that stands for something else than a plain dict."""
PLAIN_VALUES = (bool, int, float, str, type(None))
DICTS = (dict, OrderedDict, defaultdict)
WIDTHS = {
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
}
"""The types of numbers that safetensors holds."""
ADVICE = "make it of dicts, lists, numbers, text, tensors and arrays, or give the task `save` and `load`"


@dataclass(frozen=True)
class Parts:
    """A state, copied to the host: what training does next does not change it."""

    outline: Any = None
    tensors: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(state: Any) -> "Parts":
        """Raises StateError for a state that is not plain."""
        parts = Parts()
        return replace(parts, outline=parts._outline_of(state, ""))

    def files(self) -> dict[str, bytes]:
        """The content of each file; no file where there is nothing."""
        found: dict[str, bytes] = {}
        if self.tensors:
            import safetensors.torch

            found[TENSORS] = safetensors.torch.save(self.tensors)
        if self.arrays:
            import safetensors.numpy

            found[ARRAYS] = safetensors.numpy.save(self.arrays)
        return found

    @staticmethod
    def read(outline: Any, files: Mapping[str, bytes]) -> "Parts":
        """From a manifest's outline and the content of the files."""
        tensors, arrays = {}, {}
        if TENSORS in files:
            import safetensors.torch

            tensors = safetensors.torch.load(files[TENSORS])
        if ARRAYS in files:
            import safetensors.numpy

            arrays = safetensors.numpy.load(files[ARRAYS])
        return Parts(outline, tensors, arrays)

    def state(self) -> Any:
        """The state again, on the host. Raises KeyError, TypeError or ValueError if the outline does not fit."""
        return self._filled(self.outline)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if not isinstance(value, dict):
            return value
        if REFERENCE_MARK not in value:
            return {key: self._filled(each) for key, each in value.items()}
        kinds: dict[str, Callable[[Any], Any]] = {
            "tensor": self.tensors.__getitem__,
            "array": self.arrays.__getitem__,
            "number": lambda name: self.arrays[name][()],
            "tuple": lambda items: tuple(map(self._filled, items)),
            "dict": lambda items: {self._filled(key): self._filled(each) for key, each in items},
        }
        return kinds[value[REFERENCE_MARK]](value["of"])

    def _outline_of(self, value: Any, path: str) -> Any:
        """The value with names in the places of its tensors and arrays, which are taken out of it."""
        kind = type(value)
        if kind in PLAIN_VALUES:
            return value
        if kind in (list, tuple):
            items = [self._outline_of(each, f"{path}/{place}") for place, each in enumerate(value)]
            return items if kind is list else _reference("tuple", items)
        return self._outline_of_dict(value, path) if kind in DICTS else self._taken(value, path)

    def _outline_of_dict(self, value: dict[Any, Any], path: str) -> Any:
        items = [(key, self._outline_of(each, f"{path}/{key}")) for key, each in value.items()]
        if all(type(key) is str for key in value) and REFERENCE_MARK not in value:
            return dict(items)
        keyed = [[self._outline_of(key, f"{path}, the key {key!r:.40}"), each] for key, each in items]
        return _reference("dict", keyed)

    def _taken(self, value: Any, path: str) -> Any:
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter) and _is_dense(value):
            copy = value.detach().to("cpu", copy=True).contiguous()
            return _reference("tensor", _put(self.tensors, path, copy))
        if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic) and value.dtype.name in WIDTHS:
            kind = "array" if type(value) is numpy.ndarray else "number"
            if kind == "array" or isinstance(value, numpy.generic):
                return _reference(kind, _put(self.arrays, path, numpy.array(value, order="C")))
        raise StateError(f"the state{f' at {path[1:]}' if path else ''} holds a {_called(type(value))}: {ADVICE}")


def _reference(kind: str, of: Any) -> dict[str, Any]:
    return {REFERENCE_MARK: kind, "of": of}


def _is_dense(tensor: Any) -> bool:
    width = str(tensor.dtype).removeprefix("torch.")
    return width in WIDTHS and str(tensor.layout) == "torch.strided" and not tensor.is_quantized


def _put(among: dict[str, Any], path: str, value: Any) -> str:
    """Under a name of its own; a lone surrogate of a key is spelled out."""
    name = path[1:].encode("utf-8", "backslashreplace").decode() or "state"
    while name in among or name == "__metadata__":
        name += "'"
    among[name] = value
    return name


def _called(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
