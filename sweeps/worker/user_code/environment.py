"""The environment variables that the user's code names, as a trial's process has them: they decide
like settings."""

import ast
import os
from collections.abc import Iterator
from hashlib import sha256

from tracking.code import Code
from tracking.uri import MASK, is_secret, without_password

READING = ("get", "getenv")
WRITING = ("setdefault", "pop", "putenv", "unsetenv")
"""Functions that take a variable's name first. What the code sets itself is no setting from
outside."""
OF_A_GROUP = (
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "NODE_RANK",
    "RANK",
    "WORLD_SIZE",
)
WHERE = frozenset((*OF_A_GROUP, "CUDA_VISIBLE_DEVICES", "HOSTNAME", "PWD", "TMPDIR"))
LAUNCHERS = ("RAY_", "SLURM_")
"""Variables, and how their names begin, that only say where a process runs: each has others."""
AT_START = dict(os.environ)
"""A worker trains one trial after the other, and the first may set some."""
DIGITS = 8
"""Digits of a secret's hash that are recorded: enough to tell two values apart."""
LONGEST = 200
"""Characters of a value that are kept; a longer one ends in its hash."""


def variables(code: Code | None) -> dict[str, str | None]:
    """The value of each variable that the code reads by a literal name; None for one that is not
    set.

    For a secret, only a hash is recorded.
    """
    if code is None:
        return {}
    read = set[str]()
    written = set[str]()
    for content in code.files.values():
        for name, is_written in _names_in(content):
            names = written if is_written else read
            names.add(name)
    compared = sorted(name for name in read - written - WHERE if not name.startswith(LAUNCHERS))
    return {name: _shown(name, AT_START.get(name)) for name in compared}


def _shown(name: str, value: str | None) -> str | None:
    if value is None:
        return None
    digest = sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:DIGITS]
    public = without_password(value)
    if is_secret(name) or public != value:
        return f"{MASK} ({digest})"
    return public if len(public) <= LONGEST else f"{public[:LONGEST]}… ({digest})"


def _names_in(content: bytes) -> Iterator[tuple[str, bool]]:
    """Each name in `os.environ["NAME"]`, `os.environ.get("NAME")`, `os.getenv("NAME")` and `"NAME"
    in os.environ`, and whether the code writes it there."""
    if b"env" not in content:
        return
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):  # it cannot be run either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_environment(node.value):
            yield from _text(node.slice, not isinstance(node.ctx, ast.Load))
        elif isinstance(node, ast.Compare) and _is_environment(node.comparators[0]):
            yield from _text(node.left, False)
        elif isinstance(node, ast.Call) and node.args and _takes_name(node.func):
            yield from _text(node.args[0], last_name(node.func) in WRITING)


def _takes_name(function: ast.expr) -> bool:
    name = last_name(function)
    of_environment = isinstance(function, ast.Attribute) and _is_environment(function.value)
    return name in ("getenv", "putenv", "unsetenv") or (
        of_environment and name in (*READING, *WRITING)
    )


def _is_environment(expression: ast.expr) -> bool:
    return last_name(expression) == "environ"


def last_name(expression: ast.expr) -> str:
    """Of a name or an attribute, such as the function of a call."""
    return str(getattr(expression, "attr", getattr(expression, "id", "")))


def _text(expression: ast.expr, is_written: bool) -> Iterator[tuple[str, bool]]:
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        yield expression.value, is_written
