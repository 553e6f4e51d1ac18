"""Files that survive a crash: each is replaced as a whole or appended to line by line."""

import errno
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tracking.damage import DamagedFileError, decoded, read_whole


def write_atomic(path: Path, text: str | bytes) -> None:
    """Replace `path` by `text` (UTF-8), or by these bytes, so that a crash leaves the old or the new, never a part."""
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            _fill(descriptor, text)
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):  # of storage that is read-only by now; the first error says why
                Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that can be made again: a crash may leave a part of it. Errors name the path."""
    with _naming(path):
        path.write_bytes(content)


def append_line(path: Path, line: str, fsync: bool = False) -> None:
    """Append `line` and a newline in one write, after removing an unfinished line that a crash left.

    Raises OSError; a line that was only partly written (a full disk) counts as unfinished.
    """
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not path.exists()
        data = line.encode() + b"\n"
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _drop_torn_tail(descriptor)
            if os.write(descriptor, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if fsync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if fsync and fresh:
            _sync_folder(path.parent)


def read_object(path: Path) -> dict[str, Any] | None:
    """The object of a JSON file; None without a file. Raises DamagedFileError."""
    content = read_whole(path)
    if content is None:
        return None
    if not content.strip():
        raise DamagedFileError(path, "is empty")
    text = decoded(path, content)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise DamagedFileError(path, f"not JSON: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(path, f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DamagedFileError(path, f"must be a JSON object, but is {type(value).__name__}")
    return value


def to_json(value: Any) -> str:
    """Compact JSON on one line. A float that is not finite becomes null, since JSON has no name for it."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _drop_torn_tail(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return
    content = os.pread(descriptor, size, 0)
    os.ftruncate(descriptor, content.rfind(b"\n") + 1)


def _fill(descriptor: int, text: str | bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o644)  # mkstemp's 0600 would hide the study from colleagues
        file.write(text.encode() if isinstance(text, str) else text)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of the system name this path: those of an open file name none, others that of a temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # without it a power cut may lose the new name
    finally:
        os.close(descriptor)
