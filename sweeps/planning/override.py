"""One override, ``key=value``, as Hydra's grammar reads it."""

import re
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["set", "add", "delete", "sweep"]
ITEM = re.compile(r"""(?P<quoted>"[^"]*"|'[^']*')|(?P<plain>[^\[\]{},'"]+)""")
KEY = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
WORD = re.compile(r"(?:\.{0,2}/)?[A-Za-z_][\w./-]*", re.ASCII)
WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
CONSTANTS = {"null": None, "true": True, "false": False}
NOT_PLAIN = object()


@dataclass(frozen=True)
class Override:
    """``kind`` is "sweep" for several values separated by commas. ``value`` is plain data."""

    key: str
    value: Any
    kind: Kind = "set"
    package: str | None = None


def parsed(text: str) -> Override | None:
    """The override as Hydra reads it; None if it is none."""
    key, mark, value = text.partition("=")
    if mark and KEY.fullmatch(key) and (read := plain(value)) is not NOT_PLAIN:
        return Override(key, read)
    return by_grammar(_quoted(text))


def value_text(text: str) -> str:
    """The value of an override as typed."""
    return text.partition("=")[2].strip()


def plain(text: str) -> Any:
    """A word, a number or a list of these, or NOT_PLAIN. To import Hydra takes longer than to compose a study."""
    if text.startswith("[") and text.endswith("]"):
        items = [_item(item) for item in text[1:-1].split(",")]
        return NOT_PLAIN if NOT_PLAIN in items else items
    return _item(text)


def _item(text: str) -> Any:
    if text in CONSTANTS:
        return CONSTANTS[text]
    if WHOLE.fullmatch(text):
        return int(text)
    if DECIMAL.fullmatch(text):
        return float(text)
    constant = text.lower() in (*CONSTANTS, "nan", "inf")
    return text if WORD.fullmatch(text) and not constant else NOT_PLAIN


def by_grammar(text: str) -> Override | None:
    """The override by Hydra's own grammar; None if it is none."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        read = OverridesParser.create().parse_override(text)
    except (HydraException, ValueError, RecursionError):  # also a whole number of thousands of digits
        return None
    if read.is_sweep_override():
        return Override(read.key_or_group, None, "sweep", read.package)
    kind: Kind = "delete" if read.is_delete() else "add" if read.is_add() else "set"
    return Override(read.key_or_group, read.value(), kind, read.package)


def _quoted(text: str) -> str:
    """The override with quotes around each item that has letters beyond ASCII, which Hydra reads only in quotes."""
    key, mark, value = text.partition("=")
    if value.isascii() or "${" in value or "\\" in value:
        return text
    return f"{key}{mark}{ITEM.sub(_in_quotes, value)}"


def _in_quotes(item: re.Match[str]) -> str:
    text = item[0].strip()
    return item[0] if item["quoted"] or text.isascii() else item[0].replace(text, f"'{text}'")
