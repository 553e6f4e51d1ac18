"""Words for people: numbers and times as text, commands as one types them, the cause of an error in one line.

A number that is None becomes the empty string; the caller explains why it is missing."""

import hashlib
import math
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tracking.files import DamagedFileError
from tracking.uri import without_password

PLAIN = re.compile(r"[\w.,/@%+~:=\[\]-]*")
"""What a shell leaves as it is, and a list in brackets."""
HYDRA_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*( [A-Za-z_][\w.-]*)*", re.ASCII)
"""What Hydra reads as a text without quotes, unless it is one of HYDRA_NO_TEXT."""
HYDRA_NO_TEXT = ("null", "true", "false", "nan", "inf")
NO_ANSWER = ("ConnectionError", "Timeout", "TimeoutError", "OperationalError", "InterfaceError")
"""Classes of the standard library, of requests, and of databases' drivers; the latter also for a locked database."""


def number(value: float | None, places: int) -> str:
    """Fixed decimals; four significant digits for a huge value, such as the perplexity of a diverged run."""
    if value is None:
        return ""
    return f"{value:.3e}" if abs(value) >= 1e5 else f"{value:.{places}f}"


def stopped_at(result: Mapping[str, Any] | None) -> str:
    """Such as "stopped at 100 of 500", of a result whose training ended before its ``steps``, or "diverged at step 40";
    otherwise empty."""
    if result and result.get("diverged") is not None:
        return f"diverged at step {result['diverged']}"
    return f"stopped at {result['step']} of {result['steps']}" if result and result.get("steps") else ""


def listed(names: Sequence[str]) -> str:
    """A, B and C."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def spanned(counts: Collection[int]) -> str:
    """Such as 3, or 3 to 9."""
    return " to ".join(map(str, dict.fromkeys([min(counts), max(counts)])))


def signed(value: float | None, places: int) -> str:
    """With its sign, where minus is U+2212. Zero has no sign."""
    if value is None:
        return ""
    text = number(abs(value), places)
    if not any(digit in text for digit in "123456789"):
        return text
    return f"{'+' if value > 0 else '−'}{text}"


def spread(value: float, places: int) -> str:
    """A standard deviation: with as many decimals as its mean, or with the first one that is not 0."""
    return number(value, _least_places(value, places))


def signed_nonzero(value: float | None, places: int) -> str:
    """With its sign, and with enough decimals for one digit that is not 0."""
    return signed(value, places if value is None else _least_places(value, places))


def _least_places(value: float, places: int) -> int:
    """As many, unless the number would be 0."""
    if value == 0 or not math.isfinite(value) or round(abs(value), places):
        return places
    return min(-math.floor(math.log10(abs(value))), 12)


def millions(value: float | None) -> str:
    """Parameters: 63.046M, 0.412M."""
    return "" if value is None else f"{value / 1e6:.3f}M"


def parameters(value: float | None) -> str:
    """Those of a small model in thousands or as they are: 4.810K, 626; others in millions."""
    if value is None or value >= 1e5:
        return millions(value)
    return f"{value / 1e3:.3f}K" if value >= 1e3 else f"{value:.0f}"


def flops(value: float | None) -> str:
    """9.52e17."""
    return "" if value is None else f"{value:.2e}".replace("e+", "e")


def time(seconds: float | None) -> str:
    """12.3 s, 4 min 05 s, 3 h 20 min, 3 d 12 h."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, part, big, small in ((86400, 3600, "d", "h"), (3600, 60, "h", "min"), (60, 1, "min", "s")):
        if whole >= size:
            return f"{whole // size} {big} {whole % size // part:02d} {small}"
    raise AssertionError(seconds)


def for_shell(text: str) -> str:
    """The text as it is typed in a shell."""
    if PLAIN.fullmatch(text):
        return text
    return shlex.quote(text) if re.search(r'["$`\\!]', text) else f'"{text}"'


def shell_line(words: Iterable[str]) -> str:
    """The command as it is typed in any shell. A word with a quote inside stays readable."""
    return " ".join(for_shell(word) if "'" in word else shlex.quote(word) for word in words)


def quoted(text: str) -> str:
    """The text as a value in Hydra's grammar, with quotes if it needs them."""
    if HYDRA_PLAIN.fullmatch(text) and text.lower() not in HYDRA_NO_TEXT:
        return text
    escaped = re.sub(r"(\\+)(?='|\Z)", r"\1\1", text)  # a backslash stands for itself elsewhere
    return "'" + escaped.replace("'", "\\'") + "'"


def file_name(text: str) -> str:
    """A name for a file, and for an id of HTML, that no other text has: itself, or its plain part and a digest."""
    if re.fullmatch(r"[A-Za-z0-9_][\w.-]{,99}", text, re.ASCII):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    readable = re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII).strip("-.")
    return f"{readable[:80]}-{digest}".lstrip("-")


def cause_of(error: BaseException) -> str:
    """One line that is safe to show: the message of a database driver or a connection, if there is one."""
    if isinstance(error, DamagedFileError):
        return without_password(f"{error}; {error.remedy}")
    root = next(_roots(error), error)
    lines = [line.strip() for line in str(root).splitlines() if line.strip()]
    return without_password(f"{type(root).__name__}: {lines[0] if lines else 'no reason was given'}")


def out_of_reach(error: BaseException) -> bool:
    """Whether the store did not answer, or refused every request: the next one would wait as long, and fail as well."""
    found = [*_chain(error), *_roots(error)]
    return any(kind.__name__ in NO_ANSWER for link in found for kind in type(link).__mro__)


def _roots(error: BaseException) -> Iterator[BaseException]:
    """The errors that SQLAlchemy keeps as ``orig`` and urllib3 as ``reason``, along the chain of causes."""
    for link in _chain(error):
        for name in ("orig", "reason"):
            if isinstance(root := getattr(link, name, None), BaseException):
                yield root


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        inner = next((value for value in link.args if isinstance(value, BaseException)), None)
        link = link.__cause__ or inner or link.__context__
