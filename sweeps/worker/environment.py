"""The environment variables that the user's code names, as a trial's process has them: they decide like settings."""

import ast
import os
from collections.abc import Iterator
from hashlib import sha256

from tracking.code import Code
from tracking.uri import MASK, is_secret, without_password

READING = ("get", "getenv", "pop", "setdefault")
"""Functions that take a variable's name first."""
DIGITS = 8
"""Of a secret's hash: enough to tell two values apart."""
LONGEST = 200
"""Characters of a value that are kept; a longer one ends in its hash."""


def variables(code: Code | None) -> dict[str, str | None]:
    """By name, the value of each variable that the code names literally; None for one that is not set.

    Of a secret, only a hash is kept.
    """
    if code is None:
        return {}
    names = {name for content in code.files.values() for name in _names_in(content)}
    return {name: _shown(name, os.environ.get(name)) for name in sorted(names)}


def _shown(name: str, value: str | None) -> str | None:
    if value is None:
        return None
    digest = sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:DIGITS]
    public = without_password(value)
    if is_secret(name) or public != value:
        return f"{MASK} ({digest})"
    return public if len(public) <= LONGEST else f"{public[:LONGEST]}… ({digest})"


def _names_in(content: bytes) -> Iterator[str]:
    """Of `os.environ["NAME"]`, `os.environ.get("NAME")`, `os.getenv("NAME")` and `"NAME" in os.environ`."""
    if b"env" not in content:
        return
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # it cannot be run either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_environment(node.value):
            yield from _text(node.slice)
        elif isinstance(node, ast.Compare) and _is_environment(node.comparators[0]):
            yield from _text(node.left)
        elif isinstance(node, ast.Call) and _reads(node.func) and node.args:
            yield from _text(node.args[0])


def _reads(function: ast.expr) -> bool:
    name = _last_name(function)
    of_environment = isinstance(function, ast.Attribute) and _is_environment(function.value)
    return name == "getenv" or (name in READING and of_environment)


def _is_environment(expression: ast.expr) -> bool:
    return _last_name(expression) == "environ"


def _last_name(expression: ast.expr) -> str:
    return str(getattr(expression, "attr", getattr(expression, "id", "")))


def _text(expression: ast.expr) -> Iterator[str]:
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        yield expression.value
