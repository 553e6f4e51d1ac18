"""The verbs that watch and steer studies: ``studies``, ``status``, ``stop``, ``logs``, ``ui``, ``sync``."""

import json
import subprocess
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.text import Text

from sweeps.console import ERR, OUT, next_verb
from sweeps.planning.naming import PLACES, chosen, looking
from sweeps.schema import Problem, RefusedError
from sweeps.verbs.command import Json, OverrideList, guarded, print_notices, refuse_without_extra, taken_study
from tracking.liveness import runners
from tracking.study import Study, read_study, separate, take_over
from tracking.words import shell_line

KeepWatching = Annotated[bool, typer.Option("--watch", help="Refresh every 2 s until nothing is running.")]


@guarded
def studies(overrides: OverrideList = None, as_json: Json = False) -> None:
    """List the studies of paths.runs, the most recently active first."""
    from sweeps.planning.compose import settings_to_read
    from sweeps.status.tables import studies_json, studies_table
    from tracking import study as recorded

    runs = Path(settings_to_read(overrides).paths.runs)
    lines = studies_json(*recorded.studies(runs))
    if as_json:
        print(json.dumps(lines, indent=1, ensure_ascii=False))
    elif lines:
        OUT.print(studies_table(lines, OUT.width))
        next_verb("table", chosen(overrides, PLACES))
    else:
        OUT.print(f"No study in {escape(str(runs))}", soft_wrap=True)
        next_verb("sweep", chosen(overrides, PLACES))


@guarded
def status(
    overrides: OverrideList = None,
    as_json: Json = False,
    curves: Annotated[bool, typer.Option("--curves", help="Draw learning curves instead, one plot per row.")] = False,
    metric: Annotated[str | None, typer.Option(help="Draw this reported metric, such as train/loss.")] = None,
    watch: KeepWatching = False,
) -> None:
    """Show where each trial of a study stands."""
    from sweeps.status.standings import Standings, status_json
    from sweeps.status.tables import cut_notes, status_tables
    from tracking.mlflow.ledger import lag
    from tracking.uri import default_uri

    if (curves or metric) and as_json:
        found = "prints the state of trials, and draws no curves"
        raise RefusedError([Problem("--json", found, "leave it out; allelse.load gives curves as numbers")])
    if watch and (as_json or curves or metric):
        found = "shows the states of trials until nothing is running"
        raise RefusedError([Problem("--watch", found, "leave out --json, --curves and --metric")])
    study, settings = taken_study(overrides)
    if curves or metric:
        _draw(study, metric, overrides)
        return
    if watch:
        _watch(study)
        study = read_study(study.folder)
    behind = lag(study, settings.tracking.uri)
    lines = Standings(study).lines(behind)
    if as_json:
        print(json.dumps(status_json(lines), indent=1, ensure_ascii=False))
        return
    for table in status_tables(study, lines, OUT.width):
        OUT.print(table)
    for note in cut_notes(study, lines, OUT):
        OUT.print(Text(note), soft_wrap=True)
    where = "" if behind.state.uri == default_uri(study.folder.parent) else f" at {behind.state.uri}"
    OUT.print(f"MLflow{escape(where)}: {escape(behind.words())}", soft_wrap=True)
    states = {line["state"] for line in lines}
    if states <= {"finished"}:
        next_verb("table", looking(study.folder, overrides))
    elif "running" in states or runners(study.folder):
        next_verb("status", [*looking(study.folder, overrides), "--watch"])
    else:
        from sweeps.planning.named_study import going_on

        next_verb("sweep", going_on(study.folder, overrides))


def _watch(study: Study) -> None:
    """Until nothing is running, or Ctrl-C, which stops only the watching."""
    from sweeps.status.live import below_watch, watch

    try:
        watch(study, OUT, below_watch(study.folder))
    except KeyboardInterrupt:
        OUT.print("No longer watching; the trials are not affected.")


def _draw(study: Study, metric: str | None, overrides: list[str] | None) -> None:
    from sweeps.status.curves import drawn, read_curves

    OUT.print(Text(drawn(study, read_curves(study, metric), OUT.width), end=""), soft_wrap=True)
    next_verb("table", looking(study.folder, overrides))


@guarded
def sync(
    overrides: OverrideList = None,
    moved: Annotated[bool, typer.Option("--moved", help="Take over the runs that another folder has sent.")] = False,
    copy: Annotated[bool, typer.Option("--copy", help="Give this folder runs of its own: it is a copy.")] = False,
) -> int:
    """Sync a study's journals to MLflow once: to the store of `tracking.uri`, or else to the study's last one."""
    refuse_without_extra()
    from sweeps.running.syncer import sync_command, sync_environment
    from sweeps.verbs.ui import store_of

    study, settings = taken_study(overrides)
    if moved and copy:
        raise RefusedError([Problem("--moved", "contradicts --copy", "leave out one of them")])
    if copy:
        separate(study.folder)
    if moved:
        take_over(study.folder)
    environment = sync_environment(store_of(study, settings.tracking.uri))
    command = [*sync_command(settings), *["--moved"] * moved]
    return subprocess.run(command, env=environment, check=False).returncode


@guarded
def ui(
    overrides: OverrideList = None,
    port: Annotated[int, typer.Option(help="Preferred port.")] = 5000,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> int:
    """Open a study in MLflow: serve its pages on 127.0.0.1, or link to the server that has them."""
    refuse_without_extra()
    from sweeps.verbs.ui import open_when_ready, opens_browser, serve, store_to_serve
    from tracking.mlflow.pages import free_port, ui_command, ui_environment
    from tracking.uri import without_password

    store = store_to_serve(overrides)
    print_notices(store.notices)
    port = port if store.running else free_port(port)
    server = without_password(store.uri, mark="") if store.running else f"http://127.0.0.1:{port}"
    pages = store.lines(server)
    for words, link in pages:
        OUT.print(f"{escape(words)}: [bold]{escape(link)}[/]", soft_wrap=True, highlight=False)
    if len(pages) == 1 and store.study is not None:
        ERR.print(f"`allelse sync` prepares the pages of {escape(store.study.name)}", style="dim", soft_wrap=True)
    if store.running:
        OUT.print("The server is already running.")
    else:
        OUT.print("Press Ctrl-C to stop the server.")
    if browser and opens_browser():
        open_when_ready(server, pages[0][1], wait=store.running)
    return 0 if store.running else serve(ui_command(store.runs, port=port), ui_environment(store.uri))


Arguments = Annotated[list[str] | None, typer.Argument(metavar="[TRIAL…] [KEY=VALUE …]", help="Trials, overrides.")]


@guarded
def stop(arguments: Arguments = None) -> None:
    """Stop a running sweep, or only the named trials, after the current step; from any machine of the study."""
    from sweeps.verbs.logs import named_trials, request

    trials, study, overrides, _ = named_trials(arguments or [], running=True)
    for line in request(study, trials, overrides):
        OUT.print(escape(line), soft_wrap=True)
    next_verb("status", [*looking(study.folder, overrides), *["--watch"] * (not trials)])


@guarded
def logs(
    arguments: Arguments = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new lines until the trial ends.")] = False,
) -> None:
    """Print what the processes of a trial printed, and why it failed."""
    from sweeps.verbs.logs import named_trials, one_trial, shown_log, still_runs

    trials, study, overrides, notices = named_trials(arguments or [])
    trial = one_trial(study, trials)
    follow = follow and still_runs(study, trial)
    if follow:
        watch = shell_line(["allelse", "status", *looking(study.folder, overrides), "--watch"])
        notices = (*notices, f"Follows the log until the trial ends, or until Ctrl-C; `{watch}` shows steps and scores")
    print_notices(notices)
    for text in shown_log(study, trial, follow):
        OUT.file.write(text)
        OUT.file.flush()
    if not follow:
        next_verb("status", looking(study.folder, overrides))
