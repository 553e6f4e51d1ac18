"""Files that survive a crash: each is replaced as a whole or appended to line by line."""

import errno
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tracking.damage import DamagedFileError, decoded, naming, read_whole

ShapeCheck = Callable[[dict[str, Any]], str | None]  # the fault of a line, or None


def write_atomic(path: Path, text: str) -> None:
    """Replace `path` by `text` (UTF-8) so that a crash leaves the old content or the new, never a part."""
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


def read_lines(path: Path, check: ShapeCheck = lambda line: None) -> list[dict[str, Any]]:
    """The objects of a JSONL file; [] without a file. A last line without its newline was torn and is left out.

    Raises DamagedFileError with file and line if an earlier line is not a JSON object or fails ``check``:
    no crash of ours can cause that.
    """
    lines = sorted_lines(path, check)
    for line in lines:
        if isinstance(line, DamagedFileError):
            raise line
    return [line for line in lines if not isinstance(line, DamagedFileError)]


def sorted_lines(path: Path, check: ShapeCheck) -> list[dict[str, Any] | DamagedFileError]:
    """Every complete line of a JSONL file, or its fault. Raises DamagedFileError if the path is not a file."""
    data = read_whole(path) or b""
    return [parsed_line(path, number, line, check) for number, line in enumerate(data.split(b"\n")[:-1], start=1)]


def first_line(path: Path, check: ShapeCheck = lambda line: None) -> dict[str, Any]:
    """The first line of a JSONL file. Raises DamagedFileError."""
    line = parsed_line(path, 1, (read_whole(path) or b"").partition(b"\n")[0], check)
    if isinstance(line, DamagedFileError):
        raise line
    return line


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


def last_line(path: Path) -> dict[str, Any] | None:
    """The last complete line of a JSONL file, read from the file's end; None without one."""
    try:
        with naming(path), path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            for window in (1 << 12, 1 << 16, size):
                file.seek(max(0, size - window))
                lines = file.read().split(b"\n")[:-1]
                if len(lines) > 1 or (lines and window >= size):
                    return _last(path, lines[-1])
    except FileNotFoundError:
        pass
    return None


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


def parsed_line(path: Path, number: int, line: bytes, check: ShapeCheck) -> dict[str, Any] | DamagedFileError:
    """The object of one line, or its fault. Lines count from 1."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return DamagedFileError(path, f"not a JSON line: {error}", number)
    if not isinstance(value, dict):
        return DamagedFileError(path, f"must be a JSON object, but is {type(value).__name__}", number)
    wrong = check(value)
    return DamagedFileError(path, wrong, number) if wrong else value


def _last(path: Path, line: bytes) -> dict[str, Any]:
    found = parsed_line(path, 0, line, lambda line: None)
    if isinstance(found, DamagedFileError):  # the line's number takes the whole file
        raise DamagedFileError(path, found.cause, (read_whole(path) or b"").count(b"\n"))
    return found


def _drop_torn_tail(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return
    content = os.pread(descriptor, size, 0)
    os.ftruncate(descriptor, content.rfind(b"\n") + 1)


def _fill(descriptor: int, text: str) -> None:
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)  # mkstemp's 0600 would hide the study from colleagues
        file.write(text)
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
