"""The types of a schema's fields, and their values, in the words of a refusal."""

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    NoneType: "null",
    dict: "a group of keys",
}


def type_words(hint: Any, rules: Sequence[object] = ()) -> str:
    """What a field of this type allows, such as "a whole number of at least 1"."""
    origin = get_origin(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if origin in (Union, UnionType):
        return " or ".join(type_words(option) for option in get_args(hint))
    if origin is list:
        item, *item_rules = get_args(hint)
        if get_origin(item) is Annotated:
            item, *item_rules = get_args(item)
        return f"a list, each {type_words(item, item_rules)}"
    words = NAMES.get(origin or hint, str(hint))
    return "".join([words, *(f" {rule}" for rule in rules)])


def value_words(value: object) -> str:
    """A value as YAML writes it: null, or text in quotes."""
    if value is None:
        return "null"
    return f'"{value}"' if isinstance(value, str) else str(value)
