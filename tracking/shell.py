"""Text as people type it: words of a shell, values of Hydra, and names of files."""

import hashlib
import re
import shlex
from collections.abc import Iterable

PLAIN = re.compile(r"[\w.,/@%+~:=\[\]-]*")
"""What a shell does not change, and a list in brackets."""
HYDRA_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*( [A-Za-z_][\w.-]*)*", re.ASCII)
"""What Hydra reads as text without quotes, unless it is one of HYDRA_NO_TEXT."""
HYDRA_NO_TEXT = ("null", "true", "false", "nan", "inf")


def for_shell(text: str) -> str:
    """The text as you type it in a shell."""
    if PLAIN.fullmatch(text):
        return text
    return shlex.quote(text) if re.search(r'["$`\\!]', text) else f'"{text}"'


def shell_line(words: Iterable[str]) -> str:
    """The command as you type it in any shell. A word with a quote in it stays readable."""
    return " ".join(for_shell(word) if "'" in word else shlex.quote(word) for word in words)


def quoted(text: str) -> str:
    """The text as a value in Hydra's grammar, with quotes if it needs them."""
    if HYDRA_PLAIN.fullmatch(text) and text.lower() not in HYDRA_NO_TEXT:
        return text
    # Hydra reads a backslash as an escape only before a quote
    escaped = re.sub(r"(\\+)(?='|\Z)", r"\1\1", text)
    escaped = escaped.replace("'", "\\'")
    return f"'{escaped}'"


def file_name(text: str) -> str:
    """A unique name for a file or an HTML id: the text itself, or its plain part and a digest."""
    if re.fullmatch(r"[A-Za-z0-9_][\w.-]{,99}", text, re.ASCII):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    readable = re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII).strip("-.")
    return f"{readable[:80]}-{digest}".lstrip("-")
