"""The verbs that set up and check: ``init``, ``config``, ``doctor``."""

import keyword
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps.config.tasks import ENTRY_POINTS, OURS
from sweeps.console import OUT, next_verb, print_json, print_line
from sweeps.planning.studies.advice import command
from sweeps.problems import Problem, RefusedError, refusal, refuse
from sweeps.verbs.command import Json, OverrideList, guarded

if TYPE_CHECKING:
    from sweeps.preflight.machine import Examined

TEMPLATE = Path(__file__).parent / "template"
STARTER = "starter"
"""The template's own name, in its text and in the names of its files."""
NEW_NAME = "must be a new name"
VARIED = "sweep.vary={degree: [3, 9], lr: [0.01]}"
"""Rows of the starter that need no file."""

TaskName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the task, and of its Python module.")
]
CommandWords = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- COMMAND …]", help="A command that trains: it becomes the task."),
]
HydraConfig = Annotated[
    str | None,
    typer.Option("--cfg", help="job: only what Hydra composes, before the scale divides."),
]
HydraInfo = Annotated[
    str | None,
    typer.Option("--info", help="defaults: the files that Hydra composes, in order."),
]


@guarded
def init(name: TaskName, command_words: CommandWords = None) -> None:
    """Write a task of your own to start from: a Python file and three rows.

    With a command after --, write only conf/task/NAME.yaml: its long flags become keys.
    """
    if command_words:
        from sweeps.verbs.drafts.command import write_draft

        write_draft(name, command_words, Path.cwd())
        return
    for path in create(name, Path.cwd()):
        print_line(OUT, f"Wrote {path}")
    OUT.print(f"{name}.py runs as it is. Replace its data, model and loop with your own.")
    print_line(OUT, f"Rows without files: {command('plan', f'task={name}', VARIED)}")
    next_verb("plan", [f"task={name}"])


def create(name: str, folder: Path) -> list[Path]:
    """Write the files, and return their paths relative to ``folder``.

    Raises RefusedError before it writes any.
    """
    problems = list(_name_problems(name, folder)) or list(_file_problems(name, folder))
    refuse(problems)
    files = [path for path in TEMPLATE.rglob("*") if path.suffix in (".py", ".yaml")]
    written: list[Path] = []
    for file in sorted(files, key=lambda path: (len(path.parts), path)):
        relative = str(file.relative_to(TEMPLATE))
        path = Path(relative.replace(STARTER, name))
        text = file.read_text("utf-8").replace(STARTER, name)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
        written.append(path)
    return written


def _name_problems(name: str, folder: Path) -> Iterator[Problem]:
    """What is wrong with the name, if anything."""
    other_places = [path for path in sys.path if os.path.realpath(path) != os.path.realpath(folder)]
    if keyword.iskeyword(name) or not (name.isidentifier() and name[0].isalpha()):
        yield Problem("NAME", f'is "{name}"', _advice_on_name(name))
    elif name in OURS or entry_points(group=ENTRY_POINTS, name=name):
        yield Problem("NAME", f'is "{name}", an installed task', NEW_NAME)
    elif name in sys.stdlib_module_names or PathFinder.find_spec(name, other_places) is not None:
        fault = f'is "{name}", an installed module, which {name}.py would shadow'
        yield Problem("NAME", fault, NEW_NAME)


def _advice_on_name(name: str) -> str:
    """What to type instead of a name that no module can have; it may be a script, or a command."""
    words = name.split()
    if name.endswith(".py") and len(words) == 1:
        words = ["python", name]
    if len(words) > 1 and which(words[0]):
        return f"to run a command as a task, type `{command('init', 'NAME', '--', *words)}`"
    return "must be a module name: a letter, then letters, digits and _; not a keyword of Python"


def _file_problems(name: str, folder: Path) -> Iterator[Problem]:
    """What is in the way of the files, or what an import would find instead of them."""
    for path in ("conf", "conf/task"):
        if os.path.lexists(folder / path) and not (folder / path).is_dir():
            yield Problem(path, "is not a folder", "rename it, or work in another folder")
    for path in (
        f"{name}.py",
        f"{name}/__init__.py",
        f"conf/task/{name}",
        f"conf/task/{name}.yaml",
    ):
        if os.path.lexists(folder / path):
            yield Problem(path, "exists", "choose another name, or work in another folder")


@guarded
def config(overrides: OverrideList = None, cfg: HydraConfig = None, info: HydraInfo = None) -> None:
    """Print the composed configuration of one row (row=NAME).

    Hydra composes base, row and scale. Then the scale divides, and the row's differences keep
    their proportion. Values from the command line are set last. docs/configuration.md shows both
    orders side by side.
    """
    import yaml

    from sweeps.planning.study_rows.compose import compose_row
    from sweeps.planning.study_rows.composed_files import defaults_of, job_of
    from sweeps.planning.study_rows.task_choice import library_of
    from tracking.uri import shown_tree

    _refuse_other_value("--cfg", cfg, "job")
    _refuse_other_value("--info", info, "defaults")
    if info:
        OUT.print(defaults_of(overrides or []))
        return
    if cfg:
        tree = job_of(overrides or [])
    else:
        library = library_of(overrides or [], Path.cwd())
        tree = compose_row(overrides or [], library).rows[0].settings.to_dict()
    sys.stdout.write(yaml.safe_dump(shown_tree(tree), sort_keys=False, allow_unicode=True))


def _refuse_other_value(option: str, value: str | None, allowed: str) -> None:
    """Raises RefusedError unless the option is left out or has its only value."""
    if value not in (None, allowed):
        raise refusal(option, f"is {value}", f"must be {allowed}")


@guarded
def doctor(as_json: Json = False) -> int:
    """Check that this machine can run a study, and show the fix for each failed check."""
    from sweeps.preflight.machine import examination_table, examine

    findings = [*examine(), *_precision_findings()]
    if as_json:
        print_json([vars(finding) for finding in findings])
    else:
        OUT.print(examination_table(findings))
    failed = any(finding.state == "failed" for finding in findings)
    if not failed and not as_json:
        next_verb("plan", None)
    return 1 if failed else 0


def _precision_findings() -> "list[Examined]":
    """Which precision is faster here. Empty if ``conf/`` is refused: the examination says so."""
    from sweeps.costs.faster_precision import examine_precisions

    with suppress(RefusedError):
        return list(examine_precisions(Path.cwd()))
    return []
