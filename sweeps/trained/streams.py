"""The input and the output of ``ablate translate``, checked before a model is loaded."""

import os
import sys
from pathlib import Path

from sweeps.schema import Problem, RefusedError
from sweeps.trained.request import Request, read_request
from sweeps.trained.saved_trial import find, read_trial
from tracking.study import STUDY_FILE


def translate_request(arguments: list[str], source: Path | None, target: Path | None, average: int | None) -> Request:
    """What the arguments request, checked as far as possible without a model. Raises RefusedError."""
    request = read_request("translate", arguments, average)
    _check(request, source, target)
    path = find(request.names[0], request.shared)
    if (path.parent / STUDY_FILE).is_file():
        read_trial(path, request.shared).result()
    return request


def _check(request: Request, source: Path | None, target: Path | None) -> None:
    """Find mistakes before the model is loaded and before an output replaces the input. Raises RefusedError."""
    problems = []
    if len(request.names) > 1:
        found = f"names {len(request.names)} models: {', '.join(request.names)}"
        problems.append(Problem("TRIAL", found, "must name one model"))
    if source and (source.is_dir() or not os.access(source, os.R_OK)):
        problems.append(Problem("--input", f"{source} cannot be read", "must be a text file, one sentence per line"))
    if target:
        problems += _problems_of_output(target, source)
    if problems:
        raise RefusedError(problems)


def _problems_of_output(target: Path, source: Path | None) -> list[Problem]:
    folder = target.absolute().parent
    if not folder.is_dir():
        return [Problem("--output", f"{target.parent} is not a folder", "must be in a folder that exists")]
    if target.is_dir() or not os.access(target if target.exists() else folder, os.W_OK):
        return [Problem("--output", f"{target} cannot be written", "must be a writable file")]
    if target.is_file() and _is_input(target, source):
        return [Problem("--output", f"{target} is the input", "must be another file")]
    return []


def _is_input(target: Path, source: Path | None) -> bool:
    """Whether the output is the input."""
    try:
        return os.path.samestat(target.stat(), source.stat() if source else os.fstat(sys.stdin.fileno()))
    except (OSError, AttributeError):  # an unreadable source is refused separately; a closed standard input is None
        return False
