"""``ablate VERB [key=value …]``: parse, call, show.

Exit codes: 0 done, 1 a trial or a check failed or `sync` is incomplete, 2 refused, 130 interrupted, 143 terminated.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from sweeps.console import (
    ERR,
    OUT,
    next_command,
    next_verb,
    print_failure,
    print_interruption,
    print_refusal,
    typed_command,
)
from sweeps.planning.naming import PLACES, chosen, going_on, looking
from sweeps.table_format import Format
from sweeps.trained.export_kind import ExportKind
from sweeps.verbs import TAKES_ALL, print_version, program, refuse_options, refuse_removed_folder
from tracking.damage import DamagedFileError
from transformer.finite import NotFiniteError
from transformer.schema import Problem, RefusedError

app = program("Ablation studies: define a base and one named difference per row, see the cost, run it, get the table.")
OverrideList = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE …]", help="Overrides, in Hydra's grammar.")
]
SetName = Annotated[str | None, typer.Option("--set", help="Only this set, of the trial's data or of sacreBLEU.")]
Models = Annotated[list[str], typer.Argument(metavar="TRIAL… [KEY=VALUE …]", help="Finished trials, then overrides.")]
Average = Annotated[int | None, typer.Option(min=1, help="Use the mean of the last N checkpoints.")]
Add = Annotated[bool, typer.Option("--add", help="Add rows and seeds that the study does not have yet.")]
Check = Annotated[bool, typer.Option("--check", help="Look at places, addresses and machines, as sweep does first.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def main() -> None:
    """The entry point of the console script."""
    app()


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The options before the verb."""


def _verb(run: Callable[..., int | None]) -> Callable[..., None]:
    """Turn refusals, non-finite scores, Ctrl-C and SIGTERM into messages and exit codes."""

    @wraps(run)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            refuse_removed_folder()
            refuse_options(run, kwargs.get("overrides") or kwargs.get("arguments") or [])
            code = run(*args, **kwargs) or 0
        except (RefusedError, DamagedFileError) as error:
            print_refusal(error)
            code = 2
        except NotFiniteError as error:
            ERR.print(f"[bold red]Failed[/]: {escape(str(error))}", soft_wrap=True)
            code = 1
        except BrokenPipeError:  # the reader of a pipe has left
            OUT.on_broken_pipe()
            code = 0
        except OSError as error:
            print_failure(error)
            code = 1
        except KeyboardInterrupt as error:
            code = print_interruption(error)
        raise typer.Exit(code)

    return guarded


@app.command(context_settings=TAKES_ALL)
@_verb
def plan(overrides: OverrideList = None, add: Add = False, check: Check = False, as_json: Json = False) -> None:
    """Show what a sweep would run and cost, for a recorded study or for a new one. Starts nothing."""
    from sweeps.planning.continued import plan_sweep

    make = partial(plan_sweep, overrides or [], add, "plan")
    planned = _checked(make, overrides) if check else make()
    from sweeps.show import overrides_to_run, plan_json, plan_table

    if as_json:
        print(json.dumps(plan_json(planned), indent=1, ensure_ascii=False))
        return
    OUT.print(plan_table(planned))
    if check:
        OUT.print("[green]Checked[/]: places, tracking store, machines, memory and disk")
    if planned.pending:
        next_verb("sweep", overrides_to_run(planned, overrides))
    else:
        next_verb("table", looking(planned.folder, overrides))


@app.command(context_settings=TAKES_ALL)
@_verb
def sweep(overrides: OverrideList = None, add: Add = False) -> int:
    """Run every unfinished row. Run the command again to resume where it stopped.

    A study that has begun keeps its recorded rows, seeds and settings; sweep.rows and sweep.seeds select from them.
    """
    from sweeps.planning.continued import plan_sweep

    planned = _checked(partial(plan_sweep, overrides or [], add), overrides)
    from sweeps.running.on_ray import run_plan  # loads what no refusal needs
    from sweeps.show import show_outcome

    for note in planned.composition.notes:
        OUT.print(escape(note), style="dim", soft_wrap=True)
    run_plan(planned, typed_command(), OUT)
    return show_outcome(planned, "sweep", overrides)


@app.command(context_settings=TAKES_ALL)
@_verb
def train(overrides: OverrideList = None, add: Add = False) -> int:
    """Run one row (row=NAME, train.seed=N) in this process, without Ray."""
    from sweeps.planning.continued import plan_row

    planned = _checked(partial(plan_row, overrides or [], add), overrides)
    from sweeps.running.in_process import run_single  # loads torch, which no refusal needs
    from sweeps.show import show_outcome

    run_single(planned, typed_command(), OUT)
    return show_outcome(planned, "train", overrides)


@app.command(context_settings=TAKES_ALL)
@_verb
def status(overrides: OverrideList = None, as_json: Json = False) -> None:
    """Show where each trial of a study stands."""
    from sweeps.show import status_json, status_table
    from tracking.lag import lag
    from tracking.uri import default_uri

    study = _study(overrides)
    behind = lag(study, _settings(overrides).tracking.uri)
    lines = status_json(study, behind)
    if as_json:
        print(json.dumps(lines, indent=1, ensure_ascii=False))
        return
    OUT.print(status_table(study, lines))
    where = "" if behind.uri == default_uri(study.folder.parent) else f" at {behind.uri}"
    OUT.print(f"MLflow{escape(where)}: {escape(behind.words())}", soft_wrap=True)
    if {line["state"] for line in lines} <= {"finished", "running"}:
        next_verb("table", looking(study.folder, overrides))
    else:
        next_verb("sweep", going_on(study.folder, overrides))


@app.command(context_settings=TAKES_ALL)
@_verb
def table(
    overrides: OverrideList = None,
    as_format: Annotated[Format | None, typer.Option("--format", help="Print md, csv or json.")] = None,
) -> None:
    """Print Table 3 with our figures next to the paper's."""
    from tracking import table as tables

    study = _study(overrides)
    rows = tables.table(study)
    if as_format is None:
        OUT.print(tables.render(study, rows, OUT.width))
        next_verb("ui", chosen(overrides, PLACES))
    else:
        write = {Format.md: tables.to_markdown, Format.csv: tables.to_csv, Format.json: tables.to_json}
        sys.stdout.write(write[as_format](study, rows))


@app.command(context_settings=TAKES_ALL)
@_verb
def config(overrides: OverrideList = None) -> None:
    """Print the composed configuration of one row (row=NAME)."""
    import yaml

    from sweeps.planning.compose import compose_row
    from tracking.uri import without_passwords

    settings = compose_row(overrides or []).rows[0].settings
    sys.stdout.write(yaml.safe_dump(without_passwords(settings.to_dict()), sort_keys=False, allow_unicode=True))


@app.command()
@_verb
def doctor(as_json: Json = False) -> int:
    """Check that this machine can run a study, and show the fix for each failed check."""
    from sweeps.doctor import examination_table, examine

    findings = examine()
    if as_json:
        print(json.dumps([vars(finding) for finding in findings], indent=1))
    else:
        OUT.print(examination_table(findings))
    failed = any(finding.state == "failed" for finding in findings)
    if not failed and not as_json:
        next_verb("plan", None)
    return 1 if failed else 0


@app.command(context_settings=TAKES_ALL)
@_verb
def translate(
    arguments: Models,
    source: Annotated[Path | None, typer.Option("--input", help="Read this file, not standard input.")] = None,
    target: Annotated[Path | None, typer.Option("--output", help="Write this file, not standard output.")] = None,
    nbest: Annotated[int | None, typer.Option(min=1, help="Print N lines per sentence: score TAB text.")] = None,
    average: Average = None,
) -> int:
    """Translate lines with a trial, a checkpoint, an exported model or an MLflow run."""
    from sweeps.trained.streams import translate_request

    request = translate_request(arguments, source, target, average)
    from sweeps.trained.translate import translate as run  # loads torch, which no refusal needs

    return run(request, source, target, nbest, ERR)


@app.command(context_settings=TAKES_ALL)
@_verb
def evaluate(
    arguments: Models,
    set_name: SetName = None,
    average: Average = None,
    as_json: Json = False,
) -> None:
    """Evaluate finished trials on each set of their data, or on one set, and save the translations."""
    from sweeps.trained.saved_trial import requested_trials

    request, trials = requested_trials("evaluate", arguments, average, set_name)
    from sweeps.trained.evaluate import evaluate as run  # loads torch, which no refusal needs
    from sweeps.trained.scores import notes, scores_json, scores_table

    evaluations = run(request, trials, ERR)
    if as_json:
        print(json.dumps(scores_json(evaluations), indent=1, ensure_ascii=False))
        return
    OUT.print(scores_table(evaluations))
    for line in notes(evaluations):
        OUT.print(escape(line), style="dim", soft_wrap=True)
    next_verb("translate", [os.path.relpath(evaluations[0].trial.path)])


@app.command(context_settings=TAKES_ALL)
@_verb
def export(
    arguments: Models,
    to: Annotated[ExportKind, typer.Option(help="The format to write.")],
    output: Annotated[Path | None, typer.Option(help="A new folder; by default here, named after the model.")] = None,
    average: Average = None,
    register: Annotated[str | None, typer.Option(metavar="NAME[@ALIAS]", help="Register the model in MLflow.")] = None,
) -> None:
    """Export a finished trial's model for other tools, with a model card: scores, data, provenance, usage."""
    from sweeps.trained.saved_trial import requested_trials
    from tracking.uri import without_password

    request, trials = requested_trials("export", arguments, average)
    from sweeps.trained.export import export as run  # loads torch, which no refusal needs

    folder, registration = run(request, trials, to, output, register, ERR)
    OUT.print(f"Wrote {escape(str(folder))}/; see its README.md for how to use it", soft_wrap=True)
    if registration:
        serve = f"mlflow models serve --model-uri {shlex.quote(registration.model_uri)} --env-manager local"
        next_command(f"MLFLOW_TRACKING_URI={shlex.quote(without_password(registration.uri))} {serve}")
    elif to is ExportKind.mlflow:
        next_command(f"mlflow models serve --model-uri {shlex.quote(str(folder))} --env-manager local")
    elif to is ExportKind.safetensors:
        next_verb("translate", [str(folder)])
    else:
        next_command(f"cd {shlex.quote(str(folder))}")


@app.command(context_settings=TAKES_ALL)
@_verb
def sync(overrides: OverrideList = None) -> int:
    """Sync a study's journals to MLflow once, for example after copying them from another machine."""
    from sweeps.running.syncing import sync_command, sync_environment

    _study(overrides)
    settings = _settings(overrides)
    return subprocess.run(sync_command(settings), env=sync_environment(settings), check=False).returncode


@app.command(context_settings=TAKES_ALL)
@_verb
def ui(overrides: OverrideList = None, port: Annotated[int, typer.Option(help="Preferred port.")] = 5000) -> int:
    """Serve the MLflow UI of the runs on 127.0.0.1."""
    from sweeps.serving import serve
    from tracking.uri import default_uri, without_password
    from tracking.views import free_port, ui_command, ui_environment

    settings = _settings(overrides)
    runs = Path(settings.paths.runs)
    if settings.tracking.uri and settings.tracking.uri.startswith(("http://", "https://")):
        server = escape(without_password(settings.tracking.uri, mark=""))
        OUT.print(f"The tracking server is already running: [bold]{server}[/]")
        return 0
    if settings.tracking.uri is None and not (runs / "mlflow.db").exists():
        allowed = "the first run creates the database; start one with `ablate sweep`"
        raise RefusedError([Problem("paths.runs", f"is {runs}, which has no mlflow.db", allowed)])
    port = free_port(port)
    OUT.print(f"MLflow on [bold]http://127.0.0.1:{port}[/]; press Ctrl-C to stop it", soft_wrap=True)
    return serve(ui_command(runs, port=port), ui_environment(settings.tracking.uri or default_uri(runs)))


def _checked(make: Callable[[], Any], overrides: list[str] | None) -> Any:
    """The plan, after all that can be known before a start was looked at; prints what cannot be known yet."""
    from sweeps.preflight.checks import checked

    planned, notices = checked(make, overrides or [])
    for notice in notices:
        ERR.print(escape(notice), style="yellow", soft_wrap=True)
    return planned


def _settings(overrides: list[str] | None) -> Any:
    from sweeps.planning.compose import compose_settings

    return compose_settings(overrides or [])


def _study(overrides: list[str] | None) -> Any:
    from sweeps.planning.named_study import named_study

    return named_study(_settings(overrides))


if __name__ == "__main__":
    main()
