"""``allelse translate``: its input and output, checked before a model is loaded."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sweeps.task import Problem, RefusedError, Trained, Typed
from transformer.config import TrialConfig
from transformer.finite import NotFiniteError
from transformer.verbs.models import Average, averaging, translator_in, translator_of

NBest = Annotated[int | None, typer.Option(min=1, help="Print N lines per sentence: score TAB text.")]


def translate(
    model: Trained[TrialConfig] | Path,
    typed: Typed,
    source: Annotated[Path | None, typer.Option("--input", help="Read this file, not standard input.")] = None,
    target: Annotated[Path | None, typer.Option("--output", help="Write this file, not standard output.")] = None,
    nbest: NBest = None,
    average: Average = None,
) -> int:
    """Translate lines with a trial, a checkpoint, an exported model or an MLflow run."""
    _check(source, target)
    err = Console(stderr=True, highlight=False)
    if not isinstance(model, Path):
        model = averaging(model, average, typed)
        _check_nbest(nbest, model.config.decode.beam)
    with err.status(f"Loading {escape(model.name)}"):
        translator = translator_in(model, average, typed) if isinstance(model, Path) else translator_of(model)
    _check_nbest(nbest, translator.decode.beam)
    from transformer.verbs.translating import translate_lines

    try:
        return translate_lines(translator, source, target, nbest, err)
    except NotFiniteError as error:
        err.print(f"[bold red]Failed[/]: {escape(str(error))}", soft_wrap=True)
        return 1


def _check_nbest(nbest: int | None, beam: int) -> None:
    if nbest is not None and nbest > beam:
        raise RefusedError([Problem("--nbest", f"is {nbest}", f"must be at most decode.beam, which is {beam}")])


def _check(source: Path | None, target: Path | None) -> None:
    """Find mistakes before the model is loaded and before an output replaces the input. Raises RefusedError."""
    problems = []
    if source and (source.is_dir() or not os.access(source, os.R_OK)):
        problems.append(Problem("--input", f"{source} cannot be read", "must be a text file, one sentence per line"))
    if source is None and sys.stdin is None:
        problems.append(Problem("--input", "is missing, and standard input is closed", "must name a file"))
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
    except OSError:  # an unreadable source is refused separately
        return False
