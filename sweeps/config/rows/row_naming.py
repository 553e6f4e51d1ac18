"""The name of a made row: its changes, each a key with its value. Other values give another
name."""

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

    ``types`` has the type of each key. It decides whether two different values look the same when
    typed.
    """
    keys = sorted(values, key=order.index)
    changes = [
        f"{_short_key(key, order)}_{_value_name(values[key], types.get(key))}" for key in keys
    ]
    name = "-".join(changes)
    return name if len(name.encode()) <= LONGEST_ROW else _cut(name)


def as_typed(value: Any) -> str:
    """A value as you would type it in a list."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return JOINS_ITEMS.join(map(as_typed, value))
    return str(value)


def _value_name(value: Any, value_type: Any) -> str:
    """The value as part of a folder's name, with a digest if its text fits several values."""
    text = as_typed(value)
    if _is_ambiguous(value, value_type):
        return with_digest(text, repr(value))
    has_other_letters = re.search(r"[^\w.+-]", text) or not text
    return with_digest(text, text) if has_other_letters else text


def with_digest(text: str, value: str) -> str:
    """The letters of the text that a name may have, and a digest of the complete ``value``."""
    letters = re.sub(r"[^\w.+-]+", "-", text).strip("-.")
    digest = _digest(value)
    return f"{letters}-{digest}" if letters else digest


def _is_ambiguous(value: Any, value_type: Any) -> bool:
    """Whether two values of the type look the same when typed: null and the text "null", say."""
    is_union = get_origin(value_type) in (Union, UnionType)
    options = get_args(value_type) if is_union else (value_type,)
    if isinstance(value, list):
        lists = [option for option in options if get_origin(option) is list]
        item_type = get_args(lists[0])[0] if lists else Any
        may_be_scalar = any(option in (str, int, float, bool) for option in options)
        return may_be_scalar or any(_is_ambiguous_item(item, item_type) for item in value)
    return isinstance(value, str) and _looks_like_non_text(value, options)


def _is_ambiguous_item(item: Any, item_type: Any) -> bool:
    hides_a_join = isinstance(item, str) and (not item or JOINS_ITEMS in item)
    return hides_a_join or isinstance(item, list) or _is_ambiguous(item, item_type)


def _looks_like_non_text(text: str, options: Iterable[Any]) -> bool:
    """Whether null, a truth value or a number of the key's type is typed as this text."""
    types = set(options)
    if text == "null":
        return NoneType in types
    if text in TRUTH:
        return bool in types
    return not types.isdisjoint((int, float)) and _is_number(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _short_key(key: str, all_keys: list[str]) -> str:
    """The last component of a key; the complete key if another group has the same component."""
    last = key.rpartition(".")[2]
    same = [candidate for candidate in all_keys if candidate.rpartition(".")[2] == last]
    return last if len(same) == 1 else key


def _cut(name: str) -> str:
    return f"{name.encode()[: LONGEST_ROW - 7].decode(errors='ignore')}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:6]


def short_value(value: Any) -> str:
    """A value for a name. A number has as many digits as distinguish it from other numbers."""
    if not isinstance(value, float):
        return str(value)
    text = f"{value:g}"
    return text if float(text) == value else repr(value)
