"""Files of a study: writes that survive a crash, one reader per kind of file, and what is wrong
with a damaged file.

A line of a file of JSON lines is parsed when it is asked for, so the end of a long journal is read
cheaply.
"""

import errno
import gzip
import json
import math
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, get_args

T = TypeVar("T")
Other = TypeVar("Other")
Form = Any
"""What plain data must be: a type, such as ``int | None``; a list of one form; a dict of forms, for
an object; or a tuple of forms, of which one must fit. In a dict, ``...`` stands for every key. A
key without a form may be there, too. A number is finite."""
TYPE_NOUNS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
}
NEWEST = 1 << 12
"""Bytes at the end of a file that hold its last line, as a rule."""
REMEDIES = {
    "study.json": "move it away; `allelse sweep` with its overrides writes it again and keeps finished trials",
    "result.json": "`allelse sweep` resumes from the last checkpoint and writes it again",
    "config.yaml": "`allelse sweep` writes it again",
    "provenance.json": "`allelse sweep` sets it aside; the next attempt writes it again",
    "attempts.jsonl": "`allelse sweep` keeps its good lines",
    "journal.jsonl": "`allelse sweep` keeps its good lines",
    "mlflow-ledger.json": "`allelse sync` writes it again",
    "lock.json": "put back your copy of it",
}


class DamagedFileError(ValueError):
    """A file that no reader can use. ``line`` counts from 1; None means the whole file."""

    def __init__(self, path: Path, cause: str, line: int | None = None) -> None:
        self.path = path
        self.cause = cause
        self.line = line
        at = "" if line is None else f":{line}"
        self.place = f"{path}{at}"
        self.name = f"{path.name}{at}"
        super().__init__(f"{self.place}: {cause}")

    @property
    def remedy(self) -> str:
        """How to fix it."""
        other = (
            "`allelse evaluate` evaluates the set again"
            if self.path.suffix == ".jsonl"
            else "move it away"
        )
        return REMEDIES.get(self.path.name, other)

    @property
    def note(self) -> str:
        """For a table that already names the folder: "journal.jsonl:2 is damaged: not a JSON
        line"."""
        return f"{self.name} is damaged: {self.cause}"


class UnreadableError(DamagedFileError):
    """A file that the system cannot read. It may be intact, so it is neither replaced nor treated
    as missing.

    ``errno`` and ``filename`` are those of the system's error."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(path, f"cannot be read: {error.strerror or error}")
        self.errno, self.filename = error.errno, str(path)

    @property
    def remedy(self) -> str:
        return (
            "it may be intact and is left unchanged; make it readable, then run the command again"
        )

    @property
    def note(self) -> str:
        return f"{self.path.name} {self.cause}"


def unless_damaged(read: Callable[[], T], otherwise: Other) -> T | Other:
    """The result of ``read``, or ``otherwise`` if its file is damaged or unreadable. For callers
    that report the fault in another place."""
    try:
        return read()
    except DamagedFileError:
        return otherwise


def unless_lost(read: Callable[[], T], otherwise: Other) -> T | Other:
    """The same for callers that rewrite the file. Raises UnreadableError, since an unreadable file
    may be intact."""
    try:
        return read()
    except UnreadableError:
        raise
    except DamagedFileError:
        return otherwise


def misfit(value: Any, form: Form, name: str = "") -> str | None:
    """Such as "must have a whole number as its scores.dev.step", for the first value of the wrong
    type."""
    if isinstance(form, tuple):
        wrong = [misfit(value, each, name) for each in form]
        return None if None in wrong else wrong[0]
    kinds = _kinds(type(form) if isinstance(form, dict | list) else form)
    if type(value) not in kinds or (isinstance(value, float) and not math.isfinite(value)):
        noun = TYPE_NOUNS.get(kinds[0], kinds[0].__name__)
        return f"must have {noun} as its {name}" if name else f"must be {noun}"
    if not isinstance(form, dict | list):
        return None
    if isinstance(form, list):
        parts = [(place, each, form[0]) for place, each in enumerate(value)]
    elif ... in form:
        parts = [(key, each, form[...]) for key, each in value.items()]
    else:
        parts = [(key, value.get(key), of) for key, of in form.items()]
    found = (misfit(each, of, f"{name}.{key}" if name else str(key)) for key, each, of in parts)
    return next(filter(None, found), None)


@cache
def _kinds(form: Any) -> tuple[type, ...]:
    """Of ``int | None`` and the like. A whole number may stand for a float; true and false are no
    numbers."""
    kinds = get_args(form) or (form,)
    return (*kinds, int) if float in kinds else kinds


def write_atomic(path: Path, text: str | bytes) -> None:
    """Replace `path` by `text` (UTF-8), or by these bytes, so that a crash leaves the old or the
    new, never a part."""
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=".tmp", dir=path.parent
        )
        try:
            _fill(descriptor, text)
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):  # of storage that is read-only by now; the first error says why
                Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def append_line(path: Path, line: str, fsync: bool = False) -> None:
    """Append `line` and a newline in one write, after removing an unfinished line that a crash
    left.

    Raises OSError; a line that was only partly written (a full disk) counts as unfinished.
    """
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _drop_torn_tail(descriptor)
            _write_whole(descriptor, line.encode() + b"\n")
            if fsync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if fsync and fresh:
            _sync_folder(path.parent)


def replace_last_line(path: Path, line: str) -> None:
    """Put `line` in the place of the last complete line; it is on disk when this returns.

    A reader may see the file without its last line, or with a torn one, as after a crash, but never
    a mixture of both. Raises OSError; the old line stays where the new one does not fit.
    """
    with _writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            _drop_torn_tail(descriptor)
            end = os.fstat(descriptor).st_size
            start = _line_start(descriptor, end - 1)
            before = os.pread(descriptor, end - start, start)
            os.ftruncate(descriptor, start)
            try:
                _write_whole(descriptor, line.encode() + b"\n")
            except OSError:
                os.ftruncate(descriptor, start)
                os.write(descriptor, before)
                raise
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_whole(path: Path) -> bytes | None:
    """The file's bytes; None without a file. JSON lines may be gzipped, as in a published study:
    ``<name>.jsonl.gz``.

    Raises DamagedFileError if the path is not a file."""
    try:
        with _reading(path):
            return path.read_bytes()
    except FileNotFoundError:
        return _unzipped(path.with_name(f"{path.name}.gz")) if path.suffix == ".jsonl" else None


def _unzipped(path: Path) -> bytes | None:
    content = read_whole(path)
    try:
        return None if content is None else gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedFileError(path, f"not gzip, or cut off: {error}") from None


def read_object(path: Path, form: Form = dict) -> dict[str, Any] | None:
    """The object of a JSON file; None without a file. Raises DamagedFileError, also if it is not of
    this form."""
    text = _text(path)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        cause = getattr(error, "msg", error)
        line = getattr(error, "lineno", None)
        raise DamagedFileError(path, f"not JSON: {cause}", line) from None
    if wrong := misfit(value, form):
        raise DamagedFileError(path, wrong)
    return dict(value)


def read_yaml(path: Path, group: str | None = None) -> Any:
    """The content of a YAML file, or one group or key of it, without parsing the rest. None without
    a file, or without the group. Raises DamagedFileError."""
    text = _text(path)
    if text is None or group is None:
        return None if text is None else _parsed(path, text)
    found = re.search(rf"^{group}:.*\n?(?:[ \t].*\n?)*", text, re.MULTILINE)
    return found and _parsed(path, found[0])[group]


def _text(path: Path) -> str | None:
    """None without a file. Raises DamagedFileError if it is empty, or not UTF-8."""
    content = read_whole(path)
    if content is not None and not content.strip():
        raise DamagedFileError(path, "is empty")
    return None if content is None else decoded(path, content)


def decoded(path: Path, content: bytes) -> str:
    """The bytes as text. Raises DamagedFileError if they are not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DamagedFileError(
            path, f"not UTF-8: byte 0x{content[error.start]:02x}", line
        ) from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of the system into errors that name the file. A missing file still raises
    FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise DamagedFileError(path, "is a folder, but must be a file") from None
    except NotADirectoryError:
        raise DamagedFileError(path.parent, "is a file, but must be a folder") from None
    except OSError as error:
        raise UnreadableError(path, error) from None


class Lines:
    """The complete lines of a file, as many as lie in its last ``window`` bytes; none without a
    file.

    A last line without its newline was torn by a crash and is left out. Reading a line raises
    DamagedFileError with the file and the line, unless it is JSON of this ``form``: no crash of
    ours can cause that.
    """

    def __init__(self, path: Path, form: Form = dict, window: int | None = None) -> None:
        self.path = path
        self._form = form
        self._window = window
        self._content = _read(path, window)
        *self._raw, rest = self._content.split(b"\n")
        self.torn = bool(rest)  # whether a part of a line follows them
        self.is_missing = not self._content and not path.exists()

    def __len__(self) -> int:
        return len(self._raw)

    def __getitem__(self, place: int) -> dict[str, Any]:
        try:
            value: dict[str, Any] = json.loads(self._raw[place].decode())
        except (ValueError, RecursionError) as error:
            raise self._fault(place, f"not a JSON line: {error}") from None
        if wrong := misfit(value, self._form):
            raise self._fault(place, wrong)
        return value

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(len(self._raw)))

    def good(self) -> list[dict[str, Any]]:
        """The lines without a fault."""
        found = (
            unless_damaged(partial(self.__getitem__, place), None) for place in range(len(self))
        )
        return [line for line in found if line is not None]

    def holding(self, text: str) -> Sequence[int]:
        """The places of the lines with this text."""
        wanted = text.encode()
        return (
            [place for place, line in enumerate(self._raw) if wanted in line]
            if wanted in self._content
            else []
        )

    def _fault(self, place: int, cause: str) -> DamagedFileError:
        """Lines count from 1, and from the beginning of the whole file."""
        before = (
            0
            if self._window is None
            else (read_whole(self.path) or b"").count(b"\n") - len(self._raw)
        )
        return DamagedFileError(self.path, cause, before + range(len(self._raw))[place] + 1)


def to_json(value: Any) -> str:
    """Compact JSON on one line. A float that is not finite becomes null, since JSON has no name for
    it."""
    plain = json.loads(json.dumps(value, ensure_ascii=False), parse_constant=lambda name: None)
    return json.dumps(plain, ensure_ascii=False)


def set_aside(path: Path) -> Path:
    """Rename to ``kept_name`` and return the new path. Nothing is deleted."""
    return path.rename(kept_name(path))


def kept_name(path: Path) -> Path:
    """``<name>.damaged``, or the first free name of ``<name>.damaged-2`` …"""
    kept = path.with_name(f"{path.name}.damaged")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.damaged-{number}")
    return kept


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Errors of the system name this path: those of an open file name none, others that of a
    temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _fill(descriptor: int, text: str | bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o644)  # mkstemp's 0600 would hide the study from colleagues
        file.write(text.encode() if isinstance(text, str) else text)
        file.flush()
        os.fsync(file.fileno())


def _drop_torn_tail(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return
    os.ftruncate(descriptor, _line_start(descriptor, size))


def _line_start(descriptor: int, end: int) -> int:
    """The place behind the last newline before `end`, which is looked for from there."""
    while end > 0:
        start = max(0, end - NEWEST)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write_whole(descriptor: int, data: bytes) -> None:
    """In one write. Raises OSError where only a part of it fits."""
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # without it a power cut may lose the new name
    finally:
        os.close(descriptor)


def _parsed(path: Path, text: str) -> Any:
    import yaml  # not needed to declare a task

    try:
        return yaml.load(
            text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )  # libyaml, seven times as fast
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        cause = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise DamagedFileError(path, f"not YAML: {cause}", mark and mark.line + 1) from None


def _read(path: Path, window: int | None) -> bytes:
    """From the beginning of a line on: of the last ``window`` bytes, or of more, if no complete
    line lies in them."""
    if window is None:
        return read_whole(path) or b""
    try:
        with _reading(path), path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - window))
            content = file.read(window)
    except FileNotFoundError:
        return read_whole(path) or b""
    if size <= window:
        return content
    lines = content.partition(b"\n")[2]
    return lines if b"\n" in lines else _read(path, 16 * window)
