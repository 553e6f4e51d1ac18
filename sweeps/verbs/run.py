"""The verbs that set up and run a study: ``init``, ``plan``, ``sweep``, ``train``, ``config``, ``doctor``."""

import keyword
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from sweeps.config.tasks import ENTRY_POINTS, OURS
from sweeps.console import ERR, OUT, next_verb, print_json, printing_ends_nothing, typed_command
from sweeps.planning.naming import looking
from sweeps.task import Problem, RefusedError
from sweeps.verbs.command import Add, ChangedCode, Checking, Json, OverrideList, guarded, refuse_without_extra


@guarded
def plan(
    overrides: OverrideList = None,
    add: Add = False,
    changed_code: ChangedCode = False,
    check: Checking = False,
    as_json: Json = False,
) -> None:
    """Show what a sweep would run and cost, for a recorded study or for a new one. Starts nothing."""
    from sweeps.planning.continuation import plan_sweep

    make = partial(plan_sweep, overrides or [], add, "plan", changed_code=changed_code)
    planned = _checked(make, overrides) if check else make()
    from sweeps.verbs.shown_plan import overrides_to_run, plan_json, plan_table

    if as_json:
        print_json(plan_json(planned))
        return
    OUT.print(plan_table(planned))
    if check:
        OUT.print("[green]Checked[/]: places, tracking store, machines, memory and disk")
    if planned.running:
        next_verb("status", [*looking(planned.folder, overrides), "--watch"])
    elif planned.pending:
        next_verb("sweep", overrides_to_run(planned, overrides))
    else:
        next_verb("table", looking(planned.folder, overrides))


@guarded
def sweep(overrides: OverrideList = None, add: Add = False, changed_code: ChangedCode = False) -> int:
    """Run every unfinished row. Run the command again to resume where it stopped.

    A study that has begun keeps its recorded rows, seeds and settings; sweep.rows and sweep.seeds select from them.
    """
    from sweeps.planning.continuation import plan_sweep

    planned = _checked(partial(plan_sweep, overrides or [], add, changed_code=changed_code), overrides)
    from sweeps.running.sweep import run_plan  # loads what no refusal needs
    from sweeps.verbs.shown_plan import show_outcome

    for note in planned.composition.notes:
        OUT.print(escape(note), style="dim", soft_wrap=True)
    with printing_ends_nothing():
        stopped = run_plan(planned, typed_command(), OUT)
        return show_outcome(planned, "sweep", overrides, stopped)


@guarded
def train(overrides: OverrideList = None, add: Add = False, changed_code: ChangedCode = False) -> int:
    """Run one row (row=NAME) in this process, without Ray.

    Its seed is sweep.seeds=[N], or the task's own key for it, such as train.seed=N.
    """
    from sweeps.planning.continuation import plan_row

    planned = _checked(partial(plan_row, overrides or [], add, changed_code=changed_code), overrides, one_process=True)
    from sweeps.running.single_process import run_single  # loads torch, which no refusal needs
    from sweeps.verbs.shown_plan import show_outcome

    with printing_ends_nothing():
        run_single(planned, typed_command(), OUT)
        return show_outcome(planned, "train", overrides)


def _checked(make: Callable[[], Any], overrides: list[str] | None, one_process: bool = False) -> Any:
    """The plan, after all that can be known before a start was looked at; prints what cannot be known yet."""
    refuse_without_extra()
    from sweeps.preflight.checks import checked

    planned, notices = checked(make, overrides or [], one_process)
    for notice in notices:
        ERR.print(escape(notice), style="yellow", soft_wrap=True)
    return planned


TEMPLATE = Path(__file__).parent / "template"
STARTER = "starter"
"""The template's own name, in its text and in the names of its files."""
Name = Annotated[str, typer.Argument(metavar="NAME", help="The task's name, and that of its Python module.")]


@guarded
def init(name: Name) -> None:
    """Write a task of your own to start from: a Python file, base values and two rows."""
    for path in create(name, Path.cwd()):
        OUT.print(f"Wrote {escape(str(path))}", soft_wrap=True)
    next_verb("plan", [f"task={name}"])


def create(name: str, here: Path) -> list[Path]:
    """Write the files, and return their paths relative to ``here``. Raises RefusedError before the first is written."""
    if fault := _fault(name, here):
        found, allowed = fault
        raise RefusedError([Problem("NAME", f'is "{name}"{found}', allowed)])
    if problems := list(_place_problems(name, here)):
        raise RefusedError(problems)
    texts = _texts(name)
    for path, text in texts.items():
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        (here / path).write_text(text, "utf-8")
    return list(texts)


def _texts(name: str) -> dict[Path, str]:
    """The content of each new file by its relative path: the module, base, the rows."""
    files = [path for path in TEMPLATE.rglob("*") if path.suffix in (".py", ".yaml")]
    files.sort(key=lambda path: (len(path.parts), path))
    return {
        Path(str(path.relative_to(TEMPLATE)).replace(STARTER, name)): path.read_text("utf-8").replace(STARTER, name)
        for path in files
    }


def _fault(name: str, here: Path) -> tuple[str, str] | None:
    """What is wrong with the name, and what is allowed."""
    allowed = "must be a module name: letters, digits and _, with a letter first"
    if keyword.iskeyword(name):
        return ", a keyword of Python", allowed
    if not (name.isidentifier() and name[0].isalpha()):
        return "", allowed
    if name in OURS or entry_points(group=ENTRY_POINTS, name=name):
        return ", an installed task", "must be a new name"
    elsewhere = [place for place in sys.path if os.path.realpath(place) != os.path.realpath(here)]
    if name in sys.stdlib_module_names or PathFinder.find_spec(name, elsewhere) is not None:
        return f", an installed module, which {name}.py would shadow", "must be a new name"
    return None


def _place_problems(name: str, here: Path) -> Iterator[Problem]:
    """What lies where the files will be, or what an import would find instead of them."""
    for folder in ("conf", "conf/task"):
        if os.path.lexists(here / folder) and not (here / folder).is_dir():
            yield Problem(folder, "is not a folder", "rename it, or work in another folder")
    for path in (f"{name}.py", f"{name}/__init__.py", f"conf/task/{name}"):
        if os.path.lexists(here / path):
            yield Problem(path, "exists", "choose another name, or work in another folder")


Cfg = Annotated[str | None, typer.Option("--cfg", help="job: what Hydra alone composes, before the scale divides.")]
Info = Annotated[str | None, typer.Option("--info", help="defaults: the files that Hydra composes, in their order.")]


@guarded
def config(overrides: OverrideList = None, cfg: Cfg = None, info: Info = None) -> None:
    """Print the composed configuration of one row (row=NAME).

    Hydra composes base, row and scale. Then the scale divides, the row's differences keep their proportion, and values
    from the command line are set last. docs/configuration.md has both orders side by side.
    """
    import yaml

    from sweeps.planning.compose import compose_row, defaults_of, job_of
    from tracking.uri import shown_tree

    for name, given, taken in (("--cfg", cfg, "job"), ("--info", info, "defaults")):
        if given not in (None, taken):
            raise RefusedError([Problem(name, f"is {given}", f"must be {taken}")])
    if info:
        OUT.print(defaults_of(overrides or []))
        return
    tree = job_of(overrides or []) if cfg else compose_row(overrides or []).rows[0].settings.to_dict()
    sys.stdout.write(yaml.safe_dump(shown_tree(tree), sort_keys=False, allow_unicode=True))


@guarded
def doctor(as_json: Json = False) -> int:
    """Check that this machine can run a study, and show the fix for each failed check."""
    from sweeps.preflight.machine import examination_table, examine

    findings = examine()
    if as_json:
        print_json([vars(finding) for finding in findings])
    else:
        OUT.print(examination_table(findings))
    failed = any(finding.state == "failed" for finding in findings)
    if not failed and not as_json:
        next_verb("plan", None)
    return 1 if failed else 0
