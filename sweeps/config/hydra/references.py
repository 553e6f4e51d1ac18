"""References between keys, such as ``${model.d_model}``: resolved, and refused where their value
changes from call to call."""

import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from hydra.core.utils import setup_globals
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeps.problems import Problem
from sweeps.trees import Tree, dotted

CALL = re.compile(r"\$\{\s*(?!oc\.)[\w.]+\s*:")
"""A resolver's call. OmegaConf's own resolvers, which start with ``oc.``, always give the same
value."""
HOW_TO_REFER = "a reference must look like ${group.key} and name a key that exists"


def resolved(tree: Tree) -> tuple[Tree | None, list[Problem]]:
    """The tree without references such as ``${model.d_model}``, or the problem of the first wrong
    one."""
    if not _refers(tree):
        return tree, []
    try:
        plain = _resolved(tree)
    except OmegaConfBaseException as error:
        key = str(error.full_key or "").partition("[")[0]
        reason = str(error).splitlines()[0]
        return None, [Problem(key, f"cannot be resolved: {reason}", HOW_TO_REFER)]
    return plain, []


def changing_keys(tree: Tree) -> list[str]:
    """The dotted keys whose value changes from call to call: it has ``${now:…}`` or a task's
    resolver."""
    if not any(CALL.search(text) for text in _texts(tree)):
        return []
    calls = count()
    OmegaConf.register_new_resolver("now", lambda *_: str(next(calls)), replace=True)
    try:
        first = dotted(_resolved(tree))
        second = dotted(_resolved(tree))
    except OmegaConfBaseException:  # ``resolved`` reports it with its key
        return []
    finally:
        setup_globals()  # brings Hydra's own clock back
    return [key for key, value in second.items() if repr(value) != repr(first.get(key))]


def changing_problem(key: str, tree: Tree) -> Problem:
    """The refusal of a value that changes from call to call: no command would resume its trial."""
    group, _, name = key.partition(".")
    values = tree[group]
    # a reference instead of a group
    value = values.get(name) if isinstance(values, dict) else values
    fault = f"is {value}, which changes from call to call"
    return Problem(key, fault, "must be a fixed value, so that the same command resumes the trial")


def _resolved(tree: Tree) -> Any:
    """The tree without references. Raises OmegaConfBaseException."""
    return OmegaConf.to_container(OmegaConf.create(tree), resolve=True)


def _refers(value: Any) -> bool:
    """Whether any text in the value may refer to another key."""
    return any("${" in text for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    """All texts in plain data."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value
