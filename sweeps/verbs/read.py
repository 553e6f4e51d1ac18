"""The verbs that watch and steer studies: ``studies``, ``status``, ``stop``, ``logs``."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sweeps.console import OUT, next_verb, print_json, print_line
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.study_overrides import PLACES, by_name, chosen, looking, names_study
from sweeps.problems import Problem, RefusedError, refusal
from sweeps.processes.times import LOOK_AT_LOG_S
from sweeps.verbs.command import (
    Json,
    OverrideList,
    guarded,
    names_and_overrides,
    next_copy,
    next_run,
    print_notices,
    taken_study,
)
from sweeps.verbs.names import unknown_name
from tracking.activity.log import FollowedLog
from tracking.activity.runners import (
    Runner,
    in_hand,
    known_runners,
    request_stop,
    runners,
    stop_request,
)
from tracking.card import Card
from tracking.files import DamagedFileError
from tracking.observed.record import observed_line
from tracking.published_study import is_published
from tracking.shell import shell_line
from tracking.statistics.table_row import BASE
from tracking.statistics.table_rows import table
from tracking.study import Study, StudyTrial, last_active, last_asked, read_study
from tracking.study import studies as recorded
from tracking.study_lock import lock_line
from tracking.table.text import Column, TextTable, lines_of, terminal, text_column
from tracking.words import number
from tracking.words import time as as_time

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

NO_LOG = "{name} has no log yet. `allelse train` prints to its own terminal.\n"
NOT_BEGUN = "{name} has no attempt yet.\n"
StudyLine = dict[str, Any]
"""A study as one object of `allelse studies --json`."""

Watching = Annotated[
    bool, typer.Option("--watch", help="Refresh every 2 s until nothing is running.")
]
Curves = Annotated[
    bool, typer.Option("--curves", help="Draw learning curves instead, one plot per row.")
]
MetricName = Annotated[
    str | None, typer.Option(help="Draw this reported metric, such as train/loss.")
]
Follow = Annotated[
    bool, typer.Option("--follow", help="Keep printing new lines until the trial ends.")
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TRIAL…] [KEY=VALUE …]", help="Trials, then overrides."),
]


@guarded
def studies(overrides: OverrideList = None, as_json: Json = False) -> None:
    """List the studies in paths.runs, the most recently active first."""
    from sweeps.planning.studies.named_study import settings_to_read

    runs = Path(settings_to_read(overrides).paths.runs)
    lines = _studies_json(*recorded(runs))
    if as_json:
        print_json(lines)
    elif lines:
        OUT.print(_studies_table(lines, OUT.width))
        next_verb("table", chosen(overrides, PLACES))
    else:
        print_line(OUT, f"No study in {runs}")
        next_verb("sweep", chosen(overrides, PLACES))


def _studies_json(studies: Sequence[Study], faults: Sequence[DamagedFileError]) -> list[StudyLine]:
    """One object per study, the most recently active first. Damaged studies come last, with only
    ``name`` and ``damage``."""
    unknown = dict.fromkeys(
        ("rows", "seeds", "trials", "finished", "failed", "asked", "active", "base", "headline")
    )
    lines = [_study_line(study) for study in studies]
    for fault in faults:
        lines.append({"name": fault.path.parent.name, **unknown, "damage": str(fault)})
    return lines


def _studies_table(lines: Sequence[StudyLine], width: int) -> Table:
    """The table of the lines of ``_studies_json``."""
    failed: Column[StudyLine] = text_column("failed", _failed, "number")
    columns: tuple[Column[StudyLine], ...] = (
        text_column("study", itemgetter("name"), "name"),
        text_column("seeds", _rows_and_seeds, "name", "rows × seeds"),
        text_column("finished", _finished, "number"),
        replace(failed, best=lambda line: bool(line["failed"])),
        text_column("active", _minute, "number", "last active, UTC"),
        text_column("base", lambda line: line["damage"] or line["headline"] or ""),
    )
    styles = tuple("red" if line["damage"] else "" for line in lines)
    return terminal(TextTable("", columns, lines_of(columns, lines), styles=styles), width, text=8)


def _rows_and_seeds(line: StudyLine) -> str:
    return "damaged" if line["damage"] else f"{line['rows']} × {line['seeds']}"


def _finished(line: StudyLine) -> str:
    return "" if line["damage"] else f"{line['finished']} of {line['trials']}"


def _failed(line: StudyLine) -> str:
    return str(line["failed"] or "")


def _minute(line: StudyLine) -> str:
    """When the study was last active, such as 2030-01-31 12:00."""
    moment = line["active"] or ""
    return moment.replace("T", " ")[:16]


def _study_line(study: Study) -> StudyLine:
    """The study as one object of `allelse studies --json`."""
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
    texts: list[str] = []
    for metric in card.tabled:
        score = scores.get(metric.name)
        if score is not None:
            texts.append(f"{metric.label} {number(score, metric.places)}")
    return ", ".join(texts)


def _utc(seconds: float | None) -> str | None:
    """This Unix time as ISO 8601."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@guarded
def status(
    overrides: OverrideList = None,
    as_json: Json = False,
    curves: Curves = False,
    metric: MetricName = None,
    watch: Watching = False,
) -> None:
    """Show the state of each trial of a study."""
    from sweeps.status.standings import Standings, cut_notes, status_json, status_table
    from tracking.mlflow.ledger import lag
    from tracking.uri import default_uri

    draws = bool(curves or metric)
    if as_json + watch + draws > 1:
        fix = "use one; allelse.load gives curves as numbers"
        raise refusal("--json, --watch, --curves", "can't be combined", fix)
    study, settings = taken_study(overrides)
    if draws:
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
    uri = behind.state.uri
    store = "MLflow" if uri == default_uri(study.folder.parent) else f"MLflow at {uri}"
    print_line(OUT, f"{store}: {behind.words()}")
    for line in (observed_line(study.folder), lock_line(study)):
        if line:
            OUT.print(Text(line), soft_wrap=True)
    _print_next(study, settings, overrides, {line["state"] for line in lines})


def _print_next(
    study: Study, settings: "Settings", overrides: list[str] | None, states: Collection[str]
) -> None:
    """Print the command that shows, watches or resumes the study, by the states of its trials."""
    reading = looking(study.folder, overrides)
    if all(state == "finished" for state in states):
        next_verb("table", reading)
    elif "running" in states or runners(study.folder):
        next_verb("status", [*reading, "--watch"])
    elif is_published(study.folder):
        next_copy(study.folder)
    else:
        from sweeps.planning.studies.named_study import going_on

        next_run("sweep", study, settings, going_on(study.folder, overrides), "failed" in states)


def _watch(study: Study) -> None:
    """Watch until nothing is running, or until Ctrl-C, which stops only the watching."""
    from sweeps.status.live import below_watch, watch

    try:
        watch(study, OUT, below_watch(study.folder))
    except KeyboardInterrupt:
        OUT.print("No longer watching; the trials are not affected.")


def _draw(study: Study, metric: str | None, overrides: list[str] | None) -> None:
    """Print the learning curves of the metric."""
    from sweeps.status.curves import drawn, read_curves

    plots = drawn(study, read_curves(study, metric), OUT.width)
    OUT.print(Text(plots, end=""), soft_wrap=True)
    next_verb("table", looking(study.folder, overrides))


@guarded
def stop(arguments: Arguments = None) -> None:
    """Stop a running sweep, or only some trials, after the current step. It works from any machine
    that shares the study."""
    names, overrides = names_and_overrides(arguments or [])
    study = taken_study(overrides)[0] if names_study(overrides) else _running_study(overrides)
    for line in _request_stops(study, names, overrides):
        print_line(OUT, line)
    reading = looking(study.folder, overrides)
    next_verb("status", reading if names else [*reading, "--watch"])


@guarded
def logs(arguments: Arguments = None, follow: Follow = False) -> None:
    """Print the output of a trial's processes, and why the trial failed."""
    names, overrides = names_and_overrides(arguments or [])
    study, _ = taken_study(overrides)
    trial = _one_trial(study, names)
    follow = follow and _still_runs(study, trial)
    if follow:
        watch = command("status", *looking(study.folder, overrides), "--watch")
        until = "until the trial ends, or until Ctrl-C"
        print_notices([f"Follows the log {until}; `{watch}` shows steps and scores"])
    for text in _shown_log(study, trial, follow):
        OUT.file.write(text)
        OUT.file.flush()
    if not follow:
        next_verb("status", looking(study.folder, overrides))


def _request_stops(study: Study, names: Sequence[str], overrides: list[str]) -> list[str]:
    """Ask the processes of the study to stop these trials, or everything. Returns a line for each
    process.

    Raises RefusedError if a name is wrong, or if nothing runs.
    """
    trials = [_trial_named(study, name) for name in dict.fromkeys(names)]
    live_runners = runners(study.folder)
    if not live_runners:
        status = command("status", *looking(study.folder, overrides))
        fault = f"is {study.name}, which is not running{_silence(study)}"
        allowed = f"must be a running study; `{status}` shows its trials"
        raise refusal("sweep.name", fault, allowed)
    ended = [trial.name for trial in trials if not _can_stop(study, trial, live_runners)]
    if ended:
        allowed = "must be a running or waiting trial; `allelse status` lists them"
        raise RefusedError(
            Problem("TRIAL", f"is {name}, which neither runs nor waits", allowed) for name in ended
        )
    lines: list[str] = []
    for runner in live_runners:
        names_of_runner = [trial.name for trial in trials if trial.name in runner.trials]
        if names_of_runner or not trials:
            lines.append(_request_stop(study, runner, names_of_runner))
    return lines


def _request_stop(study: Study, runner: Runner, names: list[str]) -> str:
    """Ask the process to stop these trials, or everything without names.

    Returns a line on what will stop.
    """
    request_stop(study.folder, runner, names or None)
    stops_all = stop_request(study.folder, runner).everything
    subject = "The sweep" if stops_all else ", ".join(names)
    line = f"{subject} ({runner.process}) will stop after the current step, with a checkpoint"
    return line if stops_all else f"{line}; the other trials continue"


def _silence(study: Study) -> str:
    """Such as "; pid 42 on node7 gave no heartbeat for 12 min"."""
    text = ""
    for runner in known_runners(study.folder):
        if not (runner.process.is_here or runner.lives()):
            silence = as_time(time.time() - runner.seen)
            text += f"; {runner.process} gave no heartbeat for {silence}"
    return text


def _can_stop(study: Study, trial: StudyTrial, live_runners: Sequence[Runner]) -> bool:
    """Whether a process runs the trial or will run it."""
    if study.trial_folder(trial).state(trial.key) in ("finished", "failed"):
        return False
    return any(trial.name in runner.trials for runner in live_runners)


def _shown_log(study: Study, trial: StudyTrial, follow: bool) -> Iterator[str]:
    """The trial's log, then its error.

    With ``follow``, also new lines until the trial stops running.
    """
    folder = study.trial_folder(trial)
    with closing(FollowedLog(folder.log_path)) as log:
        text = log.more()
        if not text:
            message = NO_LOG if folder.attempts_path.exists() else NOT_BEGUN
            text = message.format(name=trial.name)
        yield text
        while follow and _still_runs(study, trial):
            time.sleep(LOOK_AT_LOG_S)
            yield log.more()
        text = log.more()
        error = folder.error()
    yield text + (f"--- error.txt\n{error.rstrip()}\n" if error else "")


def _one_trial(study: Study, names: Sequence[str]) -> StudyTrial:
    """The only trial that you named. Raises RefusedError."""
    if len(names) == 1:
        return _trial_named(study, names[0])
    example = study.trials[0].name if study.trials else "base-s1"
    fault = f"is {', '.join(names)}" if names else "is missing"
    raise refusal("TRIAL", fault, f"must be one trial, such as {example}")


def _trial_named(study: Study, name: str) -> StudyTrial:
    """The trial of this name. Raises RefusedError with the nearest name."""
    for trial in study.trials:
        if trial.name == name:
            return trial
    raise RefusedError([unknown_name("TRIAL", name, study, "trials", "must be one of them")])


def _running_study(overrides: list[str]) -> Study:
    """The only running study in paths.runs. Raises RefusedError."""
    from sweeps.planning.studies.named_study import settings_to_read

    runs = Path(settings_to_read(overrides).paths.runs)
    running = [study for study in recorded(runs)[0] if runners(study.folder)]
    if len(running) == 1:
        return running[0]
    if running:
        names = ", ".join(study.name for study in running)
        fault = f"is missing, and several studies are running: {names}"
        allowed = f"must be one of them, such as {shell_line([by_name(running[0].folder)])}"
    else:
        fault = f"is missing, and no study in {runs} is running"
        allowed = "start one with `allelse sweep`; a new one appears within seconds"
    raise refusal("sweep.name", fault, allowed)


def _still_runs(study: Study, trial: StudyTrial) -> bool:
    """Whether a process runs the trial, or still has to."""
    folder = study.trial_folder(trial)
    return bool(in_hand(study.folder, [trial.name], lambda _: folder.newest_attempt()))
