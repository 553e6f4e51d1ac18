"""The command line in a folder, and a user's own configuration files."""

import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from composed_rows import composed_sweep
from typed import typed

from sweeps.planning.plan import Plan, make_plan
from sweeps.problems import Problem, RefusedError

ALLELSE = Path(sysconfig.get_path("scripts")) / "allelse"
ROW_HEAD = (
    "# @package _global_\nrow: {group: F, change: mine, published: {ppl: null, bleu: "
    "null, params_m: null}}\n"
)
"""The two lines that begin a user's own row."""

Done = subprocess.CompletedProcess[str]


def allelse(folder: Path, *arguments: str) -> Done:
    """Type `allelse …` in the folder, in this process: a new one would import for seconds."""
    outcome = typed(folder, *arguments)
    return Done(arguments, outcome.exit_code, outcome.stdout, outcome.stderr)


def run_in(folder: Path, environment: dict[str, str], *arguments: str) -> Done:
    return subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def own(folder: Path, name: str, text: str) -> Path:
    """Write `./conf/<name>.yaml`."""
    path = folder / "conf" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def own_row(folder: Path, body: str, name: str = "mine") -> Path:
    return own(folder, f"row/{name}", ROW_HEAD + body)


def plan(folder: Path, *overrides: str) -> Plan:
    composition = composed_sweep(list(overrides), folder)
    return make_plan(composition, composition.shared.sweep.seeds)


def refused(
    folder: Path, *overrides: str, by: Callable[[list[str], Path], object] = composed_sweep
) -> list[Problem]:
    """Every problem of these overrides."""
    with pytest.raises(RefusedError) as caught:
        by(list(overrides), folder)
    return caught.value.problems


def contents(folder: Path) -> list[str]:
    """Every path under the folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
