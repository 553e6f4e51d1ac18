"""The verbs that watch and steer studies: ``studies``, ``status``, ``stop``, ``logs``."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sweeps.console import OUT, next_verb, print_json
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.study_overrides import PLACES, by_name, chosen, looking, names_study
from sweeps.problems import Problem, RefusedError
from sweeps.processes.times import LOOK_AT_LOG_S
from sweeps.verbs.command import (
    Json,
    OverrideList,
    guarded,
    names_and_overrides,
    next_run,
    print_notices,
    taken_study,
    unknown,
)
from tracking.attempts import Runner, in_hand, known_runners, request_stop, runners, stop_requests
from tracking.card import Card
from tracking.files import DamagedFileError
from tracking.log import FollowedLog
from tracking.observed.record import observed_line
from tracking.statistics.rows import BASE, table
from tracking.study import Study, StudyTrial, last_active, last_asked, read_study
from tracking.study import studies as recorded
from tracking.study_lock import lock_line
from tracking.table.text import Column, TextTable, lines_of, said, terminal
from tracking.words import number, shell_line
from tracking.words import time as as_time

KeepWatching = Annotated[
    bool, typer.Option("--watch", help="Refresh every 2 s until nothing is running.")
]


@guarded
def studies(overrides: OverrideList = None, as_json: Json = False) -> None:
    """List the studies of paths.runs, the most recently active first."""
    from sweeps.planning.studies.named_study import settings_to_read

    runs = Path(settings_to_read(overrides).paths.runs)
    lines = _studies_json(*recorded(runs))
    if as_json:
        print_json(lines)
    elif lines:
        OUT.print(_studies_table(lines, OUT.width))
        next_verb("table", chosen(overrides, PLACES))
    else:
        OUT.print(f"No study in {escape(str(runs))}", soft_wrap=True)
        next_verb("sweep", chosen(overrides, PLACES))


def _studies_json(
    studies: Sequence[Study], faults: Sequence[DamagedFileError]
) -> list[dict[str, Any]]:
    """One object per study, the most recently active first; of damaged ones, at the end, ``name``
    and ``damage``."""
    unknown = dict.fromkeys(
        ("rows", "seeds", "trials", "finished", "failed", "asked", "active", "base", "headline")
    )
    damaged = [
        {"name": fault.path.parent.name, **unknown, "damage": str(fault)} for fault in faults
    ]
    return [*map(_study_line, studies), *damaged]


def _studies_table(lines: Sequence[dict[str, Any]], width: int) -> Table:
    """From the lines of ``_studies_json``."""
    columns: tuple[Column[dict[str, Any]], ...] = (
        said("study", itemgetter("name")),
        said(
            "seeds",
            lambda of: "damaged" if of["damage"] else f"{of['rows']} × {of['seeds']}",
            "name",
            "rows × seeds",
        ),
        said(
            "finished",
            lambda of: "" if of["damage"] else f"{of['finished']} of {of['trials']}",
            "number",
        ),
        replace(
            said("failed", lambda of: str(of["failed"] or ""), "number"),
            best=lambda of: bool(of["failed"]),
        ),
        said(
            "active",
            lambda of: (of["active"] or "").replace("T", " ")[:16],
            "number",
            "last active, UTC",
        ),
        said("base", lambda of: of["damage"] or of["headline"] or ""),
    )
    styles = tuple("red" if line["damage"] else "" for line in lines)
    return terminal(TextTable("", columns, lines_of(columns, lines), styles=styles), width, text=8)


def _study_line(study: Study) -> dict[str, Any]:
    states = [standing.state for standing in study.standings()]
    base = next((row for row in table(study) if row.row == BASE and row.seeds), None)
    return {
        "name": study.name,
        "rows": len({trial.row for trial in study.trials}),
        "seeds": len({trial.seed for trial in study.trials}),
        "trials": len(study.trials),
        "finished": states.count("finished"),
        "failed": states.count("failed"),
        "asked": _utc(last_asked(study)),
        "active": _utc(last_active(study) or None),
        "base": base and base.scores,
        "headline": base and _headline(study.task, base.scores),
        "damage": None,
    }


def _headline(card: Card, scores: Mapping[str, float | None]) -> str:
    """Such as "accuracy 0.897"."""
    known = [(metric, scores.get(metric.name)) for metric in card.tabled]
    return ", ".join(
        f"{metric.label} {number(value, metric.places)}"
        for metric, value in known
        if value is not None
    )


def _utc(seconds: float | None) -> str | None:
    return (
        None
        if seconds is None
        else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    )


@guarded
def status(
    overrides: OverrideList = None,
    as_json: Json = False,
    curves: Annotated[
        bool, typer.Option("--curves", help="Draw learning curves instead, one plot per row.")
    ] = False,
    metric: Annotated[
        str | None, typer.Option(help="Draw this reported metric, such as train/loss.")
    ] = None,
    watch: KeepWatching = False,
) -> None:
    """Show where each trial of a study stands."""
    from sweeps.status.standings import Standings, cut_notes, status_json, status_table
    from tracking.mlflow.ledger import lag
    from tracking.uri import default_uri

    if (as_json, watch, bool(curves or metric)).count(True) > 1:
        allowed = "leave all but one out; allelse.load gives curves as numbers"
        raise RefusedError([Problem("--json, --watch, --curves", "are typed together", allowed)])
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
        print_json(status_json(lines))
        return
    OUT.print(status_table(study, lines, OUT.width))
    for note in cut_notes(study, lines, OUT):
        OUT.print(Text(note), soft_wrap=True)
    where = (
        "" if behind.state.uri == default_uri(study.folder.parent) else f" at {behind.state.uri}"
    )
    OUT.print(f"MLflow{escape(where)}: {escape(behind.words())}", soft_wrap=True)
    for line in filter(None, (observed_line(study.folder), lock_line(study))):
        OUT.print(Text(line), soft_wrap=True)
    states = {line["state"] for line in lines}
    if states <= {"finished"}:
        next_verb("table", looking(study.folder, overrides))
    elif "running" in states or runners(study.folder):
        next_verb("status", [*looking(study.folder, overrides), "--watch"])
    else:
        from sweeps.planning.studies.named_study import going_on

        next_run("sweep", study, settings, going_on(study.folder, overrides), "failed" in states)


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


Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[TRIAL…] [KEY=VALUE …]", help="Trials, overrides.")
]


@guarded
def stop(arguments: Arguments = None) -> None:
    """Stop a running sweep, or only the named trials, after the current step; from any machine of
    the study."""
    names, overrides = names_and_overrides(arguments or [])
    study = taken_study(overrides)[0] if names_study(overrides) else _running_study(overrides)
    for line in _request(study, names, overrides):
        OUT.print(escape(line), soft_wrap=True)
    watching = [] if names else ["--watch"]
    next_verb("status", [*looking(study.folder, overrides), *watching])


@guarded
def logs(
    arguments: Arguments = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep printing new lines until the trial ends.")
    ] = False,
) -> None:
    """Print what the processes of a trial printed, and why it failed."""
    names, overrides = names_and_overrides(arguments or [])
    study, _ = taken_study(overrides)
    trial = _one_trial(study, names)
    follow = follow and _still_runs(study, trial)
    if follow:
        watch = command("status", *looking(study.folder, overrides), "--watch")
        print_notices(
            [
                f"Follows the log until the trial ends, or until Ctrl-C; `{watch}` shows steps and scores"
            ]
        )
    for text in _shown_log(study, trial, follow):
        OUT.file.write(text)
        OUT.file.flush()
    if not follow:
        next_verb("status", looking(study.folder, overrides))


NO_LOG = "{name} has no log yet. `allelse train` prints to its own terminal.\n"
NOT_BEGUN = "{name} has no attempt yet.\n"


def _request(study: Study, names: Sequence[str], overrides: list[str]) -> list[str]:
    """Ask the processes of the study to stop these trials, or everything; returns lines that say
    so.

    Raises RefusedError if a name is wrong, or if nothing runs.
    """
    trials = [_trial_named(study, name) for name in dict.fromkeys(names)]
    live = runners(study.folder)
    if not live:
        status = command("status", *looking(study.folder, overrides))
        found = f"is {study.name}, which is not running{_silent(study)}"
        raise RefusedError(
            [Problem("sweep.name", found, f"must be a running study; `{status}` shows its trials")]
        )
    if over := [trial.name for trial in trials if not _can_stop(study, trial, live)]:
        allowed = "must be a running or waiting trial; `allelse status` lists them"
        raise RefusedError(
            Problem("TRIAL", f"is {name}, which neither runs nor waits", allowed) for name in over
        )
    answers = []
    for runner in live:
        own = [trial.name for trial in trials if trial.name in runner.trials]
        if own or not trials:
            request_stop(study.folder, runner, own or None)
            alone = stop_requests(study.folder, runner) is not None
            what = ", ".join(own) if alone else "The sweep"
            more = "; the other trials go on" if alone else ""
            answers.append(
                f"{what} ({runner.process}) will stop after the current step, with a checkpoint{more}"
            )
    return answers


def _silent(study: Study) -> str:
    """Such as "; pid 42 on node7 gave no heartbeat for 12 min"."""
    lost = [
        each for each in known_runners(study.folder) if not (each.process.is_here or each.lives())
    ]
    return "".join(
        f"; {each.process} gave no heartbeat for {as_time(time.time() - each.seen)}"
        for each in lost
    )


def _can_stop(study: Study, trial: StudyTrial, live: Sequence[Runner]) -> bool:
    state = study.trial_folder(trial).state(trial.key)
    return state not in ("finished", "failed") and any(
        trial.name in runner.trials for runner in live
    )


def _shown_log(study: Study, trial: StudyTrial, follow: bool) -> Iterator[str]:
    """The trial's log, then its error. With ``follow`` new lines as they come, until the trial does
    not run."""
    folder = study.trial_folder(trial)
    with closing(FollowedLog(folder.log_path)) as log:
        yield log.more() or (NO_LOG if folder.attempts_path.exists() else NOT_BEGUN).format(
            name=trial.name
        )
        while follow and _still_runs(study, trial):
            time.sleep(LOOK_AT_LOG_S)
            yield log.more()
        text = log.more()
        error = folder.error()
    yield text + (f"--- error.txt\n{error.rstrip()}\n" if error else "")


def _one_trial(study: Study, names: Sequence[str]) -> StudyTrial:
    """The one trial that is named. Raises RefusedError."""
    if len(names) == 1:
        return _trial_named(study, names[0])
    example = study.trials[0].name if study.trials else "base-s1"
    found = f"is {', '.join(names)}" if names else "is missing"
    raise RefusedError([Problem("TRIAL", found, f"must be one trial, such as {example}")])


def _trial_named(study: Study, name: str) -> StudyTrial:
    """Raises RefusedError with the nearest name."""
    found = next((trial for trial in study.trials if trial.name == name), None)
    if found is None:
        raise RefusedError([unknown("TRIAL", name, study, "trials", "must be one of them")])
    return found


def _running_study(overrides: list[str]) -> Study:
    """The only study of the folder that runs. Raises RefusedError."""
    from sweeps.planning.studies.named_study import settings_to_read

    runs = Path(settings_to_read(overrides).paths.runs)
    running = [study for study in recorded(runs)[0] if runners(study.folder)]
    if len(running) == 1:
        return running[0]
    names = ", ".join(study.name for study in running)
    if running:
        found = f"is missing, and several studies are running: {names}"
        allowed = f"must be one of them, such as {shell_line([by_name(running[0].folder)])}"
    else:
        found = f"is missing, and no study in {runs} is running"
        allowed = "start one by `allelse sweep`; one that has just begun appears within seconds"
    raise RefusedError([Problem("sweep.name", found, allowed)])


def _still_runs(study: Study, trial: StudyTrial) -> bool:
    """Whether a process still has the trial to run, or runs it."""
    return bool(
        in_hand(study.folder, [trial.name], lambda name: study.trial_folder(trial).newest_attempt())
    )
