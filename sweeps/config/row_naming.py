"""The name of a made row: its changes, each a key with its value. Other values give another name."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

LONGEST_ROW = 120  # bytes of a name
JOINS_ITEMS = "+"
TRUTH = ("true", "false")


def made_name(values: Mapping[str, Any], order: list[str], types: Mapping[str, Any]) -> str:
    """``n_heads_16-p_drop_0.2``: the keys in the order of the schema, each with its value.

    ``types`` are those of the keys: they tell whether another value would be typed alike.
    """
    ordered = sorted(values, key=order.index)
    changes = [f"{_short(key, order)}_{_value_name(values[key], types.get(key))}" for key in ordered]
    name = "-".join(changes)
    return name if len(name.encode()) <= LONGEST_ROW else _cut(name)


def as_typed(value: Any) -> str:
    """A value as it is typed in a list."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return JOINS_ITEMS.join(map(as_typed, value)) if isinstance(value, list) else str(value)


def _value_name(value: Any, kind: Any) -> str:
    """The value as part of a folder's name, with a digest if its text does not tell which value it is."""
    text = as_typed(value)
    if _is_ambiguous(value, kind):
        return with_digest(text, repr(value))
    replaced = re.search(r"[^\w.+-]", text) or not text
    return with_digest(text, text) if replaced else text


def with_digest(text: str, whole: str) -> str:
    """The letters of the text that a name may have, and a digest of the ``whole`` value."""
    letters = re.sub(r"[^\w.+-]+", "-", text).strip("-.")
    return "-".join(filter(None, [letters, _digest(whole)]))


def _is_ambiguous(value: Any, kind: Any) -> bool:
    """Whether another value of the key's type is typed alike: the text null, where null is allowed too."""
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if isinstance(value, list):
        lists = [option for option in options if get_origin(option) is list]
        of_items = get_args(lists[0])[0] if lists else Any
        is_one_of_several = any(option in (str, int, float, bool) for option in options)
        return is_one_of_several or any(_is_ambiguous_item(item, of_items) for item in value)
    return isinstance(value, str) and _reads_as_other(value, options)


def _is_ambiguous_item(item: Any, kind: Any) -> bool:
    hides_a_join = isinstance(item, str) and (not item or JOINS_ITEMS in item)
    return hides_a_join or isinstance(item, list) or _is_ambiguous(item, kind)


def _reads_as_other(text: str, options: Iterable[Any]) -> bool:
    """Whether a value that is no text would be typed as this text."""
    kinds = set(options)
    if text == "null":
        return NoneType in kinds
    if text in TRUTH:
        return bool in kinds
    return not kinds.isdisjoint((int, float)) and _is_number(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _short(key: str, known: list[str]) -> str:
    """The last component, with its group where another group has it too."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in known) == 1 else key


def _cut(name: str) -> str:
    return f"{name.encode()[: LONGEST_ROW - 7].decode(errors='ignore')}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:6]


def short_value(value: Any) -> str:
    """With as many digits as tell it from other numbers: for a name."""
    if not isinstance(value, float):
        return str(value)
    text = f"{value:g}"
    return text if float(text) == value else repr(value)
