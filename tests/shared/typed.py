"""A command line typed in a folder, in this process."""

import contextlib
from pathlib import Path

from typer.testing import CliRunner, Result

from sweeps.cli import app


def typed(folder: Path, *arguments: str) -> Result:
    """The result of `allelse …`, with its output."""
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, list(arguments))


def refusal(folder: Path, *arguments: str) -> str:
    """The message of a refused command, on one line."""
    done = typed(folder, *arguments)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    return " ".join(done.stderr.split())
