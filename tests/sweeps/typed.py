"""A command line typed in a folder, in this process."""

import contextlib
from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

from sweeps.cli import app


def typed(folder: Path, *words: str) -> Result:
    """What `ablate …` does and says."""
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, list(words))


def refusal(folder: Path, *words: str) -> str:
    """What a refused command says, on one line."""
    done = typed(folder, *words)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    return " ".join(done.stderr.split())
