"""The text of an override before its grammar reads it: parts that the shell split, letters that Hydra lacks."""

import re
from collections.abc import Iterator, Sequence

from sweeps.planning.override import parsed as parsed

SHAPE = re.compile(r"\s*(?P<sign>-{1,2}|\+{1,2}|~)?(?P<key>[^\s=:]+)\s*(?:[:=]+|\s)\s*(?P<value>.*)", re.DOTALL)


def whole(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments, with ``train.steps = 100`` and ``sweep.rows=[base, big]`` as one text each."""
    waiting = list(arguments)
    while waiting:
        text = waiting.pop(0)
        while waiting and _continues(text, waiting[0]):
            text = f"{text} {waiting.pop(0)}"
        yield text


def value_text(text: str) -> str:
    """The value of an override as typed."""
    return text.partition("=")[2].strip()


def corrected(text: str) -> tuple[str, str] | None:
    """The key and value of a text that only resembles ``key=value``."""
    found = SHAPE.fullmatch(text)
    if found is None:
        return None
    value = found["value"].strip().rstrip(",;").strip()
    if value.count("[") != value.count("]"):
        value = f"[{value.strip('[] ,')}]"
    return found["key"], re.sub(r"\s*,\s*", ",", value)


def readable(key: str, value: str) -> str | None:
    """``key=value``, with quotes around the value if Hydra needs them; None if it cannot be read even so."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return next((text for text in (f"{key}={value}", f"{key}='{escaped}'") if parsed(text)), None)


def _continues(text: str, following: str) -> bool:
    """Whether the shell split these two: an open bracket, or a sign on its own."""
    if text.count("[") > text.count("]") or text.count("{") > text.count("}"):
        return not re.match(r"[\w.]+=", following)
    if following.startswith("="):
        return "=" not in text
    return text.endswith("=") and "=" not in following and not following.startswith("-")
