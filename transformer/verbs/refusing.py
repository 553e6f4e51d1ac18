"""Faults of text, files and settings as problems and refusals of the platform."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sweeps.task import Problem, RefusedError
from transformer.faults import Fault, FaultyError


@contextmanager
def refusing() -> Iterator[None]:
    """A FaultyError becomes a RefusedError; also a decorator."""
    try:
        yield
    except FaultyError as error:
        raise RefusedError(problems(error.faults)) from error


def problems(faults: Iterable[Fault]) -> list[Problem]:
    return [Problem(fault.key, fault.found, fault.allowed, fault.nearest) for fault in faults]
