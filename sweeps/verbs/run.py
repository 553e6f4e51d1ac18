"""The verbs that set up and run a study: ``init``, ``plan``, ``sweep``, ``train``, ``config``,
``doctor``."""

import keyword
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sweeps.config.schema import task_card
from sweeps.config.tasks import ENTRY_POINTS, OURS
from sweeps.console import ERR, OUT, next_verb, print_json, printing_ends_nothing, typed_command
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.study_overrides import SELECTING, looking
from sweeps.task import Problem, RefusedError
from sweeps.verbs.command import (
    Add,
    Calibrating,
    ChangedCode,
    Checking,
    Json,
    Locking,
    Multirun,
    OverrideList,
    Reporting,
    Vouching,
    guarded,
    next_run,
    refuse_without_extra,
)
from sweeps.verbs.plan_costs import (
    calibrated,
    cluster_nodes,
    cost_columns,
    cost_fields,
    cost_lines,
    cost_totals,
    precision_lines,
)
from sweeps.verbs.results import write_report
from sweeps.verbs.vouching import vouched
from tracking.study import read_study, weights_fault
from tracking.table.caption import size_note
from tracking.table.columns import whole_table
from tracking.table.layout import shown
from tracking.table.text import LEAST, Cell, Column, TextTable, lines_of, said, terminal
from tracking.words import flops, millions, parameters

if TYPE_CHECKING:
    from sweeps.costs.estimate import Estimate
    from sweeps.planning.plan import Plan
    from sweeps.planning.planned_trial import PlannedTrial
    from sweeps.preflight.machine import Examined

ONE_LINE_EACH = 100
"""Up to so many trials have a line each; more are summed up by row."""
UNKNOWN_COST = "unknown"
LockedMetrics = Annotated[
    list[str] | None, typer.Option("--metric", help="Lock this metric; repeat it for several.")
]
LockedSets = Annotated[
    list[str] | None, typer.Option("--set", help="Lock scores on this set; repeat it for several.")
]
FEWEST = 4
"""Columns that a plan always has, however narrow the terminal is."""


@guarded
def plan(
    overrides: OverrideList = None,
    add: Add = False,
    changed_code: ChangedCode = False,
    check: Checking = False,
    multirun: Multirun = False,
    calibrate: Calibrating = False,
    lock: Locking = False,
    metrics: LockedMetrics = None,
    sets: LockedSets = None,
    as_json: Json = False,
) -> int:
    """Show what a sweep would run and cost, for a recorded study or for a new one.

    Starts nothing, unless --calibrate lets it time some steps. --lock writes down what the study is
    to be.
    """
    from sweeps.costs.estimate import estimate_of
    from sweeps.planning.continuation import plan_sweep
    from sweeps.preflight.scored_steps import refuse_missing_steps
    from sweeps.verbs.plan_lock import locked, refuse_options_without_lock

    if not lock:
        refuse_options_without_lock(metrics or [], sets or [])
    make = partial(plan_sweep, overrides or [], add, "plan", changed_code=changed_code)
    planned = _checked(make, overrides) if check else make()
    refuse_missing_steps(planned)
    if calibrate:
        refuse_without_extra()
        if not calibrated(planned):
            return 1
    lock_text = locked(planned, metrics or [], sets or []) if lock else ""
    estimate = estimate_of(planned, cluster_nodes(planned) if check else None)
    if as_json:
        print_json(_plan_json(planned, estimate))
        return 0
    OUT.print(_plan_table(planned, estimate, overrides or []))
    if lock_text:
        OUT.print(lock_text, soft_wrap=True)
    if check:
        store = ", tracking store" if planned.composition.shared.tracking.enabled else ""
        OUT.print(f"[green]Checked[/]: places{store}, machines, memory and disk")
    if planned.running:
        next_verb("status", [*looking(planned.folder, overrides), "--watch"])
    elif planned.pending or planned.to_take:
        option = ["--changed-code"] if changed_code else []
        next_verb("sweep", [*_overrides_to_run(planned, overrides), *option])
    else:
        next_verb("table", looking(planned.folder, overrides))
    return 0


@guarded
def sweep(
    overrides: OverrideList = None,
    add: Add = False,
    changed_code: ChangedCode = False,
    vouch: Vouching = False,
    multirun: Multirun = False,
    report: Reporting = False,
) -> int:
    """Run every unfinished row. Run the command again to resume where it stopped.

    A study that has begun keeps its recorded rows, seeds and settings; sweep.rows and sweep.seeds
    select from them. With --vouch, a name such as base-s2 says which trial is trained again;
    otherwise it is the cheapest.
    """
    from sweeps.planning.continuation import plan_sweep

    if vouch:
        overrides = vouched(overrides or [], add, changed_code)
    planned = _checked(
        partial(plan_sweep, overrides or [], add, changed_code=changed_code), overrides
    )
    from sweeps.running.sweep import run_plan  # loads what no refusal needs

    for note in (*planned.composition.notes, *planned.not_taken):
        OUT.print(escape(note), style="dim", soft_wrap=True)
    with printing_ends_nothing():
        stopped = run_plan(planned, typed_command(), OUT)
        return _show_outcome(planned, "sweep", overrides, stopped, report)


@guarded
def train(
    overrides: OverrideList = None, add: Add = False, changed_code: ChangedCode = False
) -> int:
    """Run one row (row=NAME) in this process, without Ray.

    Its seed is sweep.seeds=[N], or the task's own key for it, such as train.seed=N.
    """
    from sweeps.planning.continuation import plan_row

    planned = _checked(
        partial(plan_row, overrides or [], add, changed_code=changed_code),
        overrides,
        one_process=True,
    )
    from sweeps.running.single_process import run_single  # loads torch, which no refusal needs

    for note in planned.composition.row_notes:
        OUT.print(escape(note), style="dim", soft_wrap=True)
    with printing_ends_nothing():
        run_single(planned, typed_command(), OUT)
        return _show_outcome(planned, "train", overrides)


def _checked(
    make: Callable[[], Any], overrides: list[str] | None, one_process: bool = False
) -> Any:
    """The plan, after all that can be known before a start was looked at; prints what cannot be
    known yet."""
    refuse_without_extra()
    from sweeps.preflight.checks import checked

    planned, notices = checked(make, overrides or [], one_process)
    for notice in notices:
        ERR.print(escape(notice), style="yellow", soft_wrap=True)
    return planned


def _plan_table(plan: "Plan", estimate: "Estimate", overrides: Sequence[str]) -> Table:
    """What will run and what it costs: a line per trial, or per row of a large study."""
    from sweeps.planning.cautions import cautions
    from sweeps.planning.plan_lock import planned_lock_line

    warnings = [*cautions(plan), *precision_lines(plan)]
    names = plan.composition.names({planned.trial.row for planned in plan.trials})
    notes = [
        *_costs_notes(plan),
        *_both_notes(plan),
        size_note(plan.sizes),
        *plan.composition.notes,
        *names,
    ]
    notes += plan.not_taken
    lock_line = planned_lock_line(plan)
    if lock_line not in warnings:
        notes.append(lock_line)
    caption = "\n".join([escape(note) for note in notes if note])
    for line, is_warning in cost_lines(estimate, overrides):
        caption += f"\n[yellow]{escape(line)}[/]" if is_warning else f"\n{escape(line)}"
    caption += "".join(f"\n[yellow]{escape(line)}[/]" for line in warnings)
    lines = _plan_lines(plan)
    taken = {planned.trial.name for planned in plan.running}
    params = millions if task_card(plan.task).millions else parameters
    columns: tuple[Column[list[PlannedTrial]], ...] = (
        said("row", lambda line: line[0].trial.row, "name"),
        said("change", lambda line: line[0].trial.change),
        said("seed", _seeds, "number", "seeds" if len(lines) < len(plan.trials) else "seed"),
        said("steps", lambda line: str(line[0].steps), "number"),
        said("params", lambda line: params(line[0].costs.params) or UNKNOWN_COST, "number"),
        said("flops", lambda line: flops(_flops(line)) or UNKNOWN_COST, "number", "FLOPs"),
        *cost_columns(estimate, OUT.width),
        said(
            "state", lambda line: _states([_plan_state(plan, each, taken) for each in line]), "name"
        ),
    )
    last = ["to run", *_total(plan), *cost_totals(estimate, OUT.width), ""]
    cells = (*lines_of(columns, lines), tuple(map(Cell, last)))
    groups = (*(line[0].trial.group for line in lines), "to run")
    table = terminal(
        TextTable(f"Plan of {plan.folder.name}", columns, cells, groups, names_groups=False),
        OUT.width,
        FEWEST,
        LEAST,
    )
    table.caption = caption
    return table


def _states(states: Sequence[str]) -> str:
    from sweeps.status.standings import counted

    return counted(states) if len(states) > 1 else states[0]


def _costs_notes(plan: "Plan") -> list[str]:
    """How the known costs come about; nothing if all are unknown."""
    costs = [planned.costs for planned in plan.trials]
    computed = {
        "params": any(cost.params is not None for cost in costs),
        "FLOPs": any(cost.flops is not None for cost in costs),
    }
    names = [name for name, is_known in computed.items() if is_known]
    return [plan.task.costs_note or f"{' and '.join(names)} are computed"] if names else []


def _both_notes(plan: "Plan") -> list[str]:
    """A line on rows that change keys of both kinds, and so are trained."""
    from sweeps.planning.hosts import changing_both

    trained = {planned.trial.row for planned in plan.trials if planned.host is None}
    rows = [row for row in changing_both(plan.composition) if row in trained]
    if not rows:
        return []
    verb = "changes" if len(rows) == 1 else "change"
    return [
        f"Trained, not only scored: {', '.join(rows)} {verb} keys that train as well as keys that score"
    ]


def _total(plan: "Plan") -> list[str]:
    """Such as "2 of 4 trials, 1 running or waiting", with the FLOPs of the two."""
    running = {planned.trial.name for planned in plan.running}
    to_run = [planned for planned in plan.pending if planned.trial.name not in running]
    words = f"{len(to_run)} of {len(plan.trials)} trials"
    scoring = sum(planned.host is not None for planned in to_run)
    words += f", {scoring} of them only {'scores' if scoring == 1 else 'score'}" if scoring else ""
    words += f", {len(running)} running or waiting" if running else ""
    words += f", {len(plan.to_take)} taken" if plan.to_take else ""
    to_train = [planned for planned in to_run if planned.trial.name not in plan.sources]
    return [words, "", "", "", (flops(_flops(to_train)) or UNKNOWN_COST) if to_train else ""]


def _plan_lines(plan: "Plan") -> "list[list[PlannedTrial]]":
    """The trials of each line."""
    few = len(plan.trials) <= ONE_LINE_EACH
    lines: dict[str, list[PlannedTrial]] = {}
    for planned in plan.trials:
        lines.setdefault(planned.trial.name if few else planned.trial.row, []).append(planned)
    return list(lines.values())


def _seeds(line: "list[PlannedTrial]") -> str:
    """The seed, or how many there are."""
    return str(line[0].trial.seed if len(line) == 1 else len(line))


def _flops(trials: "Sequence[PlannedTrial]") -> float | None:
    """In total; None if that of any is unknown."""
    known = [planned.costs.flops for planned in trials]
    return None if None in known else sum(flops for flops in known if flops is not None)


def _plan_json(plan: "Plan", estimate: "Estimate") -> list[dict[str, Any]]:
    costs_of = cost_fields(estimate)
    unscaled = {row.name: row.before_scaling for row in plan.composition.rows}
    return [
        {name: getattr(planned.trial, name) for name in ("row", "seed", "key", "group", "change")}
        | {"before_scaling": unscaled[planned.trial.row], "steps": planned.steps}
        | {"params": planned.costs.params, "flops": planned.costs.flops}
        | {"finished": planned.finished, "state": planned.state, "weights": planned.trial.weights}
        | {"taken_from": _source_words(plan, planned) or None}
        | costs_of(planned.trial.name)
        for planned in plan.trials
    ]


def _source_words(plan: "Plan", planned: "PlannedTrial") -> str:
    """The study and the trial that is taken instead of training; "" for one that is trained."""
    source = plan.sources.get(planned.trial.name)
    return "" if source is None else str(source.record)


def _plan_state(plan: "Plan", planned: "PlannedTrial", taken: Collection[str]) -> str:
    """``taken`` has the names of trials that a process runs or keeps for its further work."""
    if planned.finished:
        return "finished"
    source = plan.sources.get(planned.trial.name)
    if source is not None:
        return f"taken from {source.study.name}" + ("" if source.is_scored else ", to score")
    if planned.host is not None and planned.trial.name not in taken:
        fault = (
            "" if planned.can_run else weights_fault(planned.host.folder, planned.host.trial.key)
        )
        return fault or f"scores {planned.host.trial.row}'s weights"
    if planned.state == "finished":
        return "to score again"
    if planned.trial.name in taken:  # one that was interrupted may run on another machine by now
        shown = {"missing": "waiting", "failed": "waiting", "interrupted": "running or waiting"}
        return shown.get(planned.state, planned.state)
    return planned.state.replace("missing", "to run")


def _overrides_to_run(planned: "Plan", overrides: list[str] | None) -> list[str]:
    """The overrides that run a displayed plan: all typed ones for a new study, only changes for a
    recorded one."""
    from sweeps.planning.studies.named_study import going_on

    adding = ["--add"] if planned.added else []
    if planned.before is None or not planned.before.begun:
        return [*(overrides or []), *adding]
    selected = SELECTING if planned.partial or planned.added else ()
    words = going_on(planned.folder, overrides, selected, scores_again=True)
    return [*words, *adding]


def _show_outcome(
    planned: "Plan",
    verb: str,
    overrides: list[str] | None,
    stopped: Collection[str] = frozenset(),
    reports: bool = False,
) -> int:
    """Print how the plan that ``verb`` ran ended. Returns the exit code.

    It is 0 only if every trial is finished, and 130 if none failed and all others were ``stopped``
    as asked. ``reports``: the report is written here, which saves a start of Python.
    """
    finished = sum(trial.finished for trial in planned.trials)
    unfinished = {
        trial.trial.name
        for trial in planned.trials
        if not trial.finished and _is_its_own_fault(trial)
    }
    failed = [trial for trial in planned.trials if trial.state == "failed"]
    study = read_study(planned.folder)
    table = whole_table(study)
    OUT.print(shown(table, OUT.width))
    OUT.print(f"[bold]{finished} of {len(planned.trials)} finished[/]", end="")
    OUT.print(f", [bold red]{len(failed)} FAILED[/]" if failed else "")
    for trial in failed:
        OUT.print(f"  {trial.trial.name}: {escape(trial.folder.cause() or '')}", soft_wrap=True)
        logs = command("logs", trial.trial.name, *looking(planned.folder, overrides))
        OUT.print(
            f"  type `{escape(logs)}`, or read {escape(str(trial.folder.error_path))}",
            soft_wrap=True,
            style="dim",
        )
    if reports:
        write_report(table, planned.composition.shared)
    if unfinished:
        selected = SELECTING if len(planned.trials) < len(study.trials) else ()
        from sweeps.planning.studies.named_study import going_on

        words = going_on(planned.folder, overrides, selected)
        next_run(verb, study, planned.composition.shared, words, bool(failed))
        return 1 if failed or not unfinished <= {*stopped} else 130
    following = "ui" if planned.composition.shared.tracking.enabled else "sync"
    next_verb(following if reports else "report", looking(planned.folder, overrides))
    return 0


def _is_its_own_fault(planned: "PlannedTrial") -> bool:
    """Whether an unfinished trial could have finished: one that only scores cannot without its
    host's weights."""
    from sweeps.preflight.scored_steps import step_problem

    if planned.host is None:
        return True
    return planned.host.has_weights and planned.can_run and step_problem(planned) is None


TEMPLATE = Path(__file__).parent / "template"
STARTER = "starter"
"""The template's own name, in its text and in the names of its files."""
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The task's name, and that of its Python module.")
]


@guarded
def init(name: Name) -> None:
    """Write a task of your own to start from: a Python file, base values and three rows."""
    for path in create(name, Path.cwd()):
        OUT.print(f"Wrote {escape(str(path))}", soft_wrap=True)
    next_verb("plan", [f"task={name}"])


def create(name: str, here: Path) -> list[Path]:
    """Write the files, and return their paths relative to ``here``. Raises RefusedError before the
    first is written."""
    if fault := _fault(name, here):
        found, allowed = fault
        raise RefusedError([Problem("NAME", f'is "{name}"{found}', allowed)])
    if problems := list(_place_problems(name, here)):
        raise RefusedError(problems)
    files = [path for path in TEMPLATE.rglob("*") if path.suffix in (".py", ".yaml")]
    written = []
    for file in sorted(files, key=lambda path: (len(path.parts), path)):
        path = Path(str(file.relative_to(TEMPLATE)).replace(STARTER, name))
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        (here / path).write_text(file.read_text("utf-8").replace(STARTER, name), "utf-8")
        written.append(path)
    return written


def _fault(name: str, here: Path) -> tuple[str, str] | None:
    """What is wrong with the name, and what is allowed."""
    if keyword.iskeyword(name) or not (name.isidentifier() and name[0].isalpha()):
        return (
            "",
            "must be a module name: a letter, then letters, digits and _; not a keyword of Python",
        )
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


Cfg = Annotated[
    str | None,
    typer.Option("--cfg", help="job: what Hydra alone composes, before the scale divides."),
]
Info = Annotated[
    str | None,
    typer.Option("--info", help="defaults: the files that Hydra composes, in their order."),
]


@guarded
def config(overrides: OverrideList = None, cfg: Cfg = None, info: Info = None) -> None:
    """Print the composed configuration of one row (row=NAME).

    Hydra composes base, row and scale. Then the scale divides, the row's differences keep their
    proportion, and values from the command line are set last. docs/configuration.md has both orders
    side by side.
    """
    import yaml

    from sweeps.planning.study_rows.compose import compose_row
    from sweeps.planning.study_rows.composed_files import defaults_of, job_of
    from tracking.uri import shown_tree

    for name, given, taken in (("--cfg", cfg, "job"), ("--info", info, "defaults")):
        if given not in (None, taken):
            raise RefusedError([Problem(name, f"is {given}", f"must be {taken}")])
    if info:
        OUT.print(defaults_of(overrides or []))
        return
    tree = (
        job_of(overrides or []) if cfg else compose_row(overrides or []).rows[0].settings.to_dict()
    )
    sys.stdout.write(yaml.safe_dump(shown_tree(tree), sort_keys=False, allow_unicode=True))


def _precision_findings() -> "list[Examined]":
    """Nothing where the files of ``conf/`` are refused: the examination says so."""
    from sweeps.costs.faster_precision import examine_precisions

    with suppress(RefusedError):
        return list(examine_precisions(Path.cwd()))
    return []


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
