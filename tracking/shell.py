"""Commands as a person types them."""

import re
import shlex
from collections.abc import Iterable

PLAIN = re.compile(r"[\w.,/@%+~:=\[\]-]*")
"""What a shell leaves as it is, and a list in brackets."""


def for_shell(text: str) -> str:
    """The text as it is typed in a shell."""
    if PLAIN.fullmatch(text):
        return text
    return shlex.quote(text) if re.search(r'["$`\\!]', text) else f'"{text}"'


def shell_line(words: Iterable[str]) -> str:
    """The command as it is typed in any shell. A word with a quote inside stays readable."""
    return " ".join(for_shell(word) if "'" in word else shlex.quote(word) for word in words)
