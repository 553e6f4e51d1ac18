"""The command line in a folder, and configuration files of a user's own."""

import os
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.planning.compose import Composition, compose_sweep
from sweeps.planning.plan import Plan, make_plan
from transformer.schema import Problem, RefusedError

ABLATE = Path(sysconfig.get_path("scripts")) / "ablate"
ROW_HEAD = "# @package _global_\nrow: {group: F, change: mine, published: {ppl: null, bleu: null, params_m: null}}\n"
"""Two lines: what a row of one's own begins with."""

Done = subprocess.CompletedProcess[str]


def ablate(folder: Path, *words: str) -> Done:
    """Type `ablate …` in the folder, with the virtual environment on the path."""
    path = f"{ABLATE.parent}{os.pathsep}{os.environ['PATH']}"
    return run_in(folder, {**os.environ, "PATH": path}, str(ABLATE), *words)


def run_in(folder: Path, environment: dict[str, str], *words: str) -> Done:
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def own(folder: Path, name: str, text: str) -> Path:
    """Write `./conf/<name>.yaml`."""
    path = folder / "conf" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def own_row(folder: Path, body: str, name: str = "mine") -> Path:
    return own(folder, f"row/{name}", ROW_HEAD + body)


def plan(folder: Path, *words: str) -> Plan:
    composition = compose_sweep(list(words), folder)
    return make_plan(composition, composition.shared.sweep.seeds)


def refused(folder: Path, *words: str, by: Callable[[list[str], Path], Composition] = compose_sweep) -> list[Problem]:
    """Everything that is wrong with the words."""
    with pytest.raises(RefusedError) as caught:
        by(list(words), folder)
    return caught.value.problems


def contents(folder: Path) -> list[str]:
    """Every path under the folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
