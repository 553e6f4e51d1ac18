"""Files of a study: writes that survive a crash, a reader for each kind of file, and the error for
a damaged file. ``json_lines`` has the files of JSON lines."""

import gzip
import json
import math
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, get_args

T = TypeVar("T")
Default = TypeVar("Default")
Form = Any
"""The form of plain data: a type, such as ``int | None``; a list of one form; a dict of forms, for
an object; or a tuple of forms, of which one must fit. In a dict, ``...`` means every key. Keys
without a form are allowed. Numbers must be finite."""
TYPE_NOUNS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
}
REMEDIES = {
    "study.json": "move it away; `allelse sweep` with its overrides writes it again and keeps "
    "finished trials",
    "result.json": "`allelse sweep` resumes from the last checkpoint and writes it again",
    "config.yaml": "`allelse sweep` writes it again",
    "provenance.json": "`allelse sweep` sets it aside; the next attempt writes it again",
    "attempts.jsonl": "`allelse sweep` keeps its good lines",
    "journal.jsonl": "`allelse sweep` keeps its good lines",
    "mlflow-ledger.json": "`allelse sync` writes it again",
    "lock.json": "put back your copy of it",
}

TABLE_ENDINGS = (".csv", ".tsv", ".txt")
"""Endings of files that a person wrote."""


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
        if self.path.name in REMEDIES:
            return REMEDIES[self.path.name]
        if self.path.suffix == ".jsonl":
            return "`allelse evaluate` evaluates the set again"
        if self.path.suffix in TABLE_ENDINGS:
            return "correct it, then run the command again"
        return "move it away"

    @property
    def note(self) -> str:
        """Such as "journal.jsonl:2 is damaged: not a JSON line", without the folder."""
        return f"{self.name} is damaged: {self.cause}"


class UnreadableError(DamagedFileError):
    """A file that the system cannot read. It may be intact: nothing replaces it, or treats it as
    missing.

    ``errno`` and ``filename`` are those of the system's error."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(path, f"cannot be read: {error.strerror or error}")
        self.errno = error.errno
        self.filename = str(path)

    @property
    def remedy(self) -> str:
        return (
            "it may be intact and is left unchanged; make it readable, then run the command again"
        )

    @property
    def note(self) -> str:
        return f"{self.path.name} {self.cause}"


def unless_damaged(read: Callable[[], T], default: Default) -> T | Default:
    """The result of ``read``, or ``default`` if its file is damaged or unreadable. For callers that
    leave it to others to report the fault."""
    try:
        return read()
    except DamagedFileError:
        return default


def unless_lost(read: Callable[[], T], default: Default) -> T | Default:
    """The same for callers that rewrite the file. Raises UnreadableError: it may be intact."""
    try:
        return read()
    except UnreadableError:
        raise
    except DamagedFileError:
        return default


class Reader:
    """Reads files one by one, and keeps the first fault of each."""

    def __init__(self) -> None:
        self.faults: dict[Path, DamagedFileError] = {}

    def __call__(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except DamagedFileError as error:
            self.faults.setdefault(error.path, error)
            return None


def misfit(value: Any, form: Form, name: str = "") -> str | None:
    """The first value of the wrong type, such as "must have a whole number as its scores.dev.step".
    None if everything fits."""
    if isinstance(form, tuple):
        faults = [misfit(value, choice, name) for choice in form]
        return None if None in faults else faults[0]
    types = _types(type(form) if isinstance(form, dict | list) else form)
    if type(value) not in types or (isinstance(value, float) and not math.isfinite(value)):
        noun = TYPE_NOUNS.get(types[0], types[0].__name__)
        return f"must have {noun} as its {name}" if name else f"must be {noun}"
    for key, part, part_form in _parts(value, form):
        fault = misfit(part, part_form, f"{name}.{key}" if name else str(key))
        if fault:
            return fault
    return None


def _parts(value: Any, form: Form) -> list[tuple[str | int, Any, Form]]:
    """The key or index of each value in an object or a list, the value, and its form."""
    if isinstance(form, list):
        return [(index, part, form[0]) for index, part in enumerate(value)]
    if not isinstance(form, dict):
        return []
    if ... in form:
        return [(key, part, form[...]) for key, part in value.items()]
    return [(key, value.get(key), part_form) for key, part_form in form.items()]


@cache
def _types(form: Any) -> tuple[type, ...]:
    """The types in ``int | None`` and the like. A whole number is also a float; true and
    false are not numbers."""
    types = get_args(form) or (form,)
    return (*types, int) if float in types else types


def write_atomic(path: Path, text: str | bytes) -> None:
    """Replace `path` by `text` (UTF-8), or by these bytes. A crash leaves the old or the new file,
    never a part."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=".tmp", dir=path.parent
        )
        try:
            _fill(descriptor, text)
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):  # storage may be read-only by now; the first error says why
                Path(temporary).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def read_whole(path: Path) -> bytes | None:
    """The file's bytes; None without a file. Raises DamagedFileError if the path is not a file.

    JSON lines may be gzipped, as in a published study: ``<name>.jsonl.gz``."""
    try:
        with reading(path):
            return path.read_bytes()
    except FileNotFoundError:
        return _unzipped(path.with_name(f"{path.name}.gz")) if path.suffix == ".jsonl" else None


def readable_texts(folder: Path, pattern: str) -> dict[str, str]:
    """The texts of the files that match, by their path in the folder; without unreadable ones."""
    texts: dict[str, str] = {}
    for path in sorted(folder.glob(pattern)):
        content = unless_damaged(partial(read_whole, path), None)
        if content is not None:
            texts[path.relative_to(folder).as_posix()] = content.decode("utf-8", "replace")
    return texts


def _unzipped(path: Path) -> bytes | None:
    content = read_whole(path)
    try:
        return None if content is None else gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedFileError(path, f"not gzip, or cut off: {error}") from None


def read_object(path: Path, form: Form = dict) -> dict[str, Any] | None:
    """The object of a JSON file; None without a file. Raises DamagedFileError, also if the object
    does not have this form."""
    text = _text(path)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        cause = getattr(error, "msg", error)
        line = getattr(error, "lineno", None)
        raise DamagedFileError(path, f"not JSON: {cause}", line) from None
    fault = misfit(value, form)
    if fault:
        raise DamagedFileError(path, fault)
    return dict(value)


def read_yaml(path: Path, group: str | None = None) -> Any:
    """The content of a YAML file, or one group or key of it, without parsing the rest. None without
    a file, or without the group. Raises DamagedFileError."""
    text = _text(path)
    if text is None:
        return None
    if group is None:
        return _parsed_yaml(path, text)
    match = re.search(rf"^{group}:.*\n?(?:[ \t].*\n?)*", text, re.MULTILINE)
    return match and _parsed_yaml(path, match[0])[group]


def _parsed_yaml(path: Path, text: str) -> Any:
    import yaml  # not needed to declare a task

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is seven times as fast
    try:
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        cause = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise DamagedFileError(path, f"not YAML: {cause}", mark and mark.line + 1) from None


def _text(path: Path) -> str | None:
    """None without a file. Raises DamagedFileError if the file is empty, or not UTF-8."""
    content = read_whole(path)
    if content is None:
        return None
    if not content.strip():
        raise DamagedFileError(path, "is empty")
    return decoded(path, content)


def decoded(path: Path, content: bytes) -> str:
    """The file's bytes as text. Raises DamagedFileError if they are not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        cause = f"not UTF-8: byte 0x{content[error.start]:02x}"
        raise DamagedFileError(path, cause, line) from None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the system into errors that name the file.

    A missing file still raises FileNotFoundError.
    """
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


def to_json(value: Any) -> str:
    """Compact JSON on one line.

    A float that is not finite becomes null: JSON has no such number.
    """
    plain = json.loads(json.dumps(value, ensure_ascii=False), parse_constant=lambda name: None)
    return json.dumps(plain, ensure_ascii=False)


def set_aside(path: Path) -> Path:
    """Rename to ``kept_name`` and return the new path. Nothing is deleted."""
    return path.rename(kept_name(path))


def kept_name(path: Path) -> Path:
    """``<name>.damaged``, or the first free name of ``<name>.damaged-2`` …"""
    copy = path.with_name(f"{path.name}.damaged")
    number = 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}.damaged-{number}")
    return copy


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make errors of the system name this path.

    An open file's errors name none, and others name a temporary file.
    """
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


def sync_folder(folder: Path) -> None:
    """Write the folder's names to disk: otherwise a power cut may lose a new one."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
