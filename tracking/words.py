"""Words for people: numbers and times as text, commands as one types them, the cause of an error in
one line.

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
MORE_PLACES = 2
"""How many more decimals than usual a small number may have before it is written with an
exponent."""
UNKNOWN_STEP = "ended at an unknown step"
NO_ANSWER = ("ConnectionError", "Timeout", "TimeoutError", "OperationalError", "InterfaceError")
"""Classes of the standard library, of requests, and of databases' drivers; the latter also for a
locked database."""


def number(value: float | None, places: int) -> str:
    """Fixed decimals; four significant digits for a huge value, such as the perplexity of a
    diverged run.

    Only 0 itself is shown as 0: a value that these decimals would hide has more of them, or two
    significant digits.
    """
    if value is None:
        return ""
    if abs(value) >= 1e5:
        return f"{value:.3e}"
    is_hidden = value != 0 and round(abs(value), places) == 0
    return _small(value, places) if is_hidden else f"{value:.{places}f}"


def _small(value: float, places: int) -> str:
    """Such as 0.003, or 9.7e−11 for a value that needs many zeros."""
    needed = -math.floor(math.log10(abs(value)))
    if needed <= places + MORE_PLACES:
        return f"{value:.{needed}f}"
    return f"{value:.1e}".replace("e-", "e−")


def stopped_at(result: Mapping[str, Any] | None) -> str:
    """Such as "stopped at 100 of 500", of a result whose training ended before its ``steps``, or
    "diverged at step 40"; otherwise empty."""
    if result and result.get("diverged") is not None:
        return f"diverged at step {result['diverged']}"
    if not (result and result.get("steps")):
        return ""
    return (
        UNKNOWN_STEP
        if known_step(result) is None
        else f"stopped at {result['step']} of {result['steps']}"
    )


def known_step(result: Mapping[str, Any]) -> int | None:
    """The step at which a trial ended; None if it has neither reported nor saved any of its
    ``steps``."""
    step: int | None = result.get("step")
    return None if result.get("steps") and not step else step


LONGEST_VALUE = 60  # characters of one value in a table
LONGEST_CHANGE = 200  # characters of a row's own words
LOOKS_LIKE_NO_TEXT = ("None", "True", "False")


def shortened(text: str, longest: int = LONGEST_VALUE) -> str:
    """The text, or its beginning and its length if it is too long for a table."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def cell_text(value: Any) -> str:
    """A value in a table: the text None in quotes, since None itself has none."""
    return shortened(repr(value) if value in LOOKS_LIKE_NO_TEXT else str(value))


def plural(noun: str, count: float) -> str:
    """The noun for this many: seed, seeds."""
    return noun if count == 1 else f"{noun}s"


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
    if value == 0:
        return text
    return f"{'+' if value > 0 else '−'}{text}"


def millions(value: float | None) -> str:
    """Parameters: 63.046M, 0.412M."""
    return "" if value is None else f"{value / 1e6:.3f}M"


def parameters(value: float | None) -> str:
    """Those of a small model in thousands or as they are: 4.810K, 626; others in millions."""
    if value is None or value >= 1e5:
        return millions(value)
    return f"{value / 1e3:.3f}K" if value >= 1e3 else f"{value:.0f}"


def flops(value: float | None) -> str:
    """9.52e17; 0 of what trains nothing."""
    if value is None:
        return ""
    return f"{value:.2e}".replace("e+", "e") if value else "0"


SUSTAINED_BY = {"typed": "typed", "table": "from the task's table", "measured": "measured"}


def sustained(result: Mapping[str, Any]) -> str:
    """How it is known what a device sustains: such as "measured, fp32, 1 thread", or "typed"."""
    rate = result["sustained"]
    threads = rate.get("threads")
    words = [SUSTAINED_BY.get(rate["source"], rate["source"]), rate.get("precision")]
    if threads:
        words.append("1 thread" if threads == 1 else f"{threads} threads")
    return ", ".join(word for word in words if word)


def percent(share: float | None) -> str:
    """Such as 38.3%, of 0.383."""
    return "" if share is None else f"{100 * share:.3g}%"


def time(seconds: float | None) -> str:
    """12.3 s, 4 min 05 s, 3 h 20 min, 3 d 12 h."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, part, big, small in (
        (86400, 3600, "d", "h"),
        (3600, 60, "h", "min"),
        (60, 1, "min", "s"),
    ):
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
    """A name for a file, and for an id of HTML, that no other text has: itself, or its plain part
    and a digest."""
    if re.fullmatch(r"[A-Za-z0-9_][\w.-]{,99}", text, re.ASCII):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    readable = re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII).strip("-.")
    return f"{readable[:80]}-{digest}".lstrip("-")


def cause_of(error: BaseException) -> str:
    """One line that is safe to show: the message of a database driver or a connection, if there is
    one."""
    if isinstance(error, DamagedFileError):
        return without_password(f"{error}; {error.remedy}")
    root = next(_roots(error), error)
    lines = [line.strip() for line in str(root).splitlines() if line.strip()]
    return without_password(
        f"{type(root).__name__}: {lines[0] if lines else 'no reason was given'}"
    )


def out_of_reach(error: BaseException) -> bool:
    """Whether the store did not answer, or refused every request: the next one would wait as long,
    and fail as well."""
    found = [*_chain(error), *_roots(error)]
    return any(kind.__name__ in NO_ANSWER for link in found for kind in type(link).__mro__)


def _roots(error: BaseException) -> Iterator[BaseException]:
    """The errors that SQLAlchemy keeps as ``orig`` and urllib3 as ``reason``, along the chain of
    causes."""
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
