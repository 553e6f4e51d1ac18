"""The verbs that read a study: ``status``, ``table``, ``ui``, ``sync``."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from sweeps.commands.arguments import Json, OverrideList
from sweeps.commands.guarded import guarded
from sweeps.console import OUT, next_verb
from sweeps.planning.naming import PLACES, chosen, going_on, looking
from sweeps.table_format import Format
from transformer.schema import Problem, RefusedError


@guarded
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


@guarded
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
        sys.stdout.write(write[as_format](rows))


@guarded
def sync(overrides: OverrideList = None) -> int:
    """Sync a study's journals to MLflow once, for example after copying them from another machine."""
    from sweeps.running.syncing import sync_command, sync_environment

    _study(overrides)
    settings = _settings(overrides)
    return subprocess.run(sync_command(settings), env=sync_environment(settings), check=False).returncode


@guarded
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


def _settings(overrides: list[str] | None) -> Any:
    from sweeps.planning.compose import compose_settings

    return compose_settings(overrides or [])


def _study(overrides: list[str] | None) -> Any:
    from sweeps.planning.named_study import named_study

    return named_study(_settings(overrides))
