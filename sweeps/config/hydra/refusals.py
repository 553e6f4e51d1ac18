"""What Hydra, OmegaConf and YAML raise, as problems of the user's files."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from sweeps.config.files import CONFIG, Folders, line_of_default, reason_of
from sweeps.problems import Problem, RefusedError, Typo

HOW_TO_COMPOSE = "must be YAML that Hydra composes, in UTF-8"


@contextmanager
def refusals(folders: Folders, options: tuple[str, ...]) -> Iterator[None]:
    """Turns what Hydra, OmegaConf and YAML raise into RefusedError."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, OSError) as error:
        raise RefusedError([_problem(error, folders, options)]) from error


def _problem(error: Exception, folders: Folders, options: tuple[str, ...]) -> Problem:
    """The problem with its file, and the line if YAML has one; without a file, with the composed
    row."""
    row = _row_of(options)
    file = _marked_file(error) or folders.find(f"row/{row}")
    if isinstance(error, MissingConfigException) and file is not None:
        missing = _missing_option(str(error.missing_cfg_file), file, folders)
        if missing is not None:
            return missing
    reason, line = reason_of(error)
    fault = f"cannot be composed: {reason}"
    if file is None:
        return Problem(row, fault, HOW_TO_COMPOSE)
    return Problem(file.stem, fault, HOW_TO_COMPOSE, place=f"{folders.show(file)}{line}")


def _row_of(options: tuple[str, ...]) -> str:
    """The row that the options choose, as they spell it; without one, the name of Hydra's first
    file."""
    return next((text.partition("=")[2] for text in options if text.startswith("row=")), CONFIG)


def _marked_file(error: Exception) -> Path | None:
    """The file in which YAML marks the problem; None if it marks none."""
    file = Path(getattr(getattr(error, "problem_mark", None), "name", ""))
    return file if file.is_absolute() else None


def _missing_option(missing: str, file: Path, folders: Folders) -> Problem | None:
    """The problem of a file whose defaults list names an option that does not exist; None if it is
    another file's list."""
    group, _, name = missing.rpartition("/")
    options = folders.options(group)
    allowed = f"must be one of {', '.join(options)}" if options else HOW_TO_COMPOSE
    line = line_of_default(file, name)
    if line is None:
        return None
    place = f"{folders.show(file)}:{line}"
    fault = f'builds on {group} "{name}", which does not exist'
    return Problem(file.stem, fault, allowed, Typo(name, tuple(options)), place)
