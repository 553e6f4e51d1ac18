"""References such as ``${model.d_model}`` in values, resolved to plain data."""

from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeps.planning.plain_yaml import refers
from sweeps.schema import Problem

HOW_TO_REFER = "a reference must look like ${group.key} and name a key that exists"


def resolved(tree: dict[str, Any]) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The tree without references, or the problem of each key whose reference cannot be resolved."""
    problems = [Problem(key, f"cannot be resolved: {fault}", HOW_TO_REFER) for key, fault in _faults(tree)]
    if problems:
        return None, problems
    plain = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}, []


def _faults(tree: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys with a reference that is malformed, names no key, or leads back to itself."""
    keys = {key: value for key, value in _leaves(tree) if refers(value)}
    malformed = {key: fault for key, value in keys.items() if (fault := _fault_of_text(value))}
    yield from malformed.items()
    if not malformed:
        config = OmegaConf.create(tree)
        for key in keys:
            try:
                found = OmegaConf.select(config, key)
                if OmegaConf.is_config(found):
                    OmegaConf.to_container(found, resolve=True)
            except (OmegaConfBaseException, RecursionError) as error:
                yield key, _first_line(error)


def _fault_of_text(value: Any) -> str | None:
    try:
        OmegaConf.create({"value": value})
    except OmegaConfBaseException as error:
        return _first_line(error)
    return None


def _leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _first_line(error: BaseException) -> str:
    return "it refers to itself" if isinstance(error, RecursionError) else str(error).splitlines()[0]
