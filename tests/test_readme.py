"""The README shows what there is: its tree of files and its table of commands."""

import re
from pathlib import Path

from sweeps.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def test_every_module_stands_in_the_tree() -> None:
    (tree,) = re.findall(r"^conf/ .*?```", README, re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"\w+\.py", tree))
    packages = ("transformer", "sweeps", "tracking", "benchmarks")
    modules = {path.name for package in packages for path in (ROOT / package).rglob("*.py")}
    assert named == modules - {"__init__.py"}


def test_every_verb_stands_in_the_table() -> None:
    verbs = {command.callback.__name__ for command in app.registered_commands if command.callback}
    assert verbs == set(re.findall(r"^\| `ablate (\w+)", README, re.MULTILINE))
