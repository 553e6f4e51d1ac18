"""The work of ``allelse stop`` and ``allelse logs``: requests and logs in a study's folder, from any machine."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from sweeps.planning.compose import settings_to_read
from sweeps.planning.named_study import study_to_read
from sweeps.planning.naming import by_name, looking, names_study, some_of
from sweeps.processes.times import LOOK_AT_LOG_S
from sweeps.schema import Problem, RefusedError, nearest
from sweeps.verbs.command import names_and_overrides
from tracking.liveness import Runner, in_hand, known_runners, request_stop, runners, stop_requests
from tracking.log import FollowedLog
from tracking.study import Study, Trial, studies
from tracking.words import shell_line
from tracking.words import time as as_time

STOPS_SOON = "stops after the current step, with a checkpoint"
NO_LOG = "{name} has no output yet. `allelse train` prints to its own terminal.\n"
NOT_BEGUN = "{name} has no attempt yet.\n"
NamedTrials = tuple[list[str], Study, list[str], tuple[str, ...]]


def named_trials(arguments: Sequence[str], running: bool = False) -> NamedTrials:
    """The typed names of trials, the study, the overrides, and notices on the choice of the study.

    With ``running`` and without a name, the study is the one that runs. Raises RefusedError.
    """
    names, overrides = names_and_overrides(arguments)
    if running and not names_study(overrides):
        return names, _running_study(overrides), overrides, ()
    taken = study_to_read(overrides)
    return names, taken.study, overrides, taken.notices


def request(study: Study, names: Sequence[str], overrides: list[str]) -> list[str]:
    """Ask the processes of the study to stop these trials, or everything; returns lines that say so.

    Raises RefusedError if a name is wrong, or if nothing runs.
    """
    trials, live = [trial_named(study, name) for name in dict.fromkeys(names)], runners(study.folder)
    if not live:
        found = f"is {study.name}, which is not running{_silent(study)}"
        status = shell_line(["allelse", "status", *looking(study.folder, overrides)])
        raise RefusedError([Problem("sweep.name", found, f"must be a running study; `{status}` shows its trials")])
    if problems := [problem for trial in trials if (problem := _not_to_stop(study, trial, live))]:
        raise RefusedError(problems)
    asked = [(runner, [trial.name for trial in trials if trial.name in runner.trials]) for runner in live]
    chosen = [(runner, own) for runner, own in asked if own or not trials]
    for runner, own in chosen:
        request_stop(study.folder, runner, own or None)
    return [line for runner, own in chosen for line in _said(study, runner, own)]


def shown_log(study: Study, trial: Trial, follow: bool) -> Iterator[str]:
    """The trial's log, then its error. With ``follow`` new lines as they come, until the trial does not run."""
    folder = study.trial_folder(trial)
    with closing(FollowedLog(folder.log_path)) as log:
        yield log.more() or (NO_LOG if folder.attempts_path.exists() else NOT_BEGUN).format(name=trial.name)
        while follow and still_runs(study, trial):
            time.sleep(LOOK_AT_LOG_S)
            yield log.more()
        text, error = log.more(), folder.error()
    yield text + (f"--- error.txt\n{error.rstrip()}\n" if error else "")


def one_trial(study: Study, names: Sequence[str]) -> Trial:
    """The one trial that is named. Raises RefusedError."""
    if len(names) == 1:
        return trial_named(study, names[0])
    example = study.trials[0].name if study.trials else "base-s1"
    found = f"is {', '.join(names)}" if names else "is missing"
    raise RefusedError([Problem("TRIAL", found, f"must be one trial, such as {example}")])


def trial_named(study: Study, name: str) -> Trial:
    """Raises RefusedError with the nearest name."""
    for trial in study.trials:
        if trial.name == name:
            return trial
    known = [trial.name for trial in study.trials]
    near = next((each for each in known if each.startswith(f"{name}-s")), None) or nearest(name, known)
    found = f'is "{name}", but {study.name} has {some_of(known)}'
    raise RefusedError([Problem("TRIAL", found, "must be one of them", near)])


def _running_study(overrides: list[str]) -> Study:
    """The only study of the folder that runs. Raises RefusedError."""
    runs = Path(settings_to_read(overrides).paths.runs)
    running = [study for study in studies(runs)[0] if runners(study.folder)]
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


def _silent(study: Study) -> str:
    """Such as "; pid 42 on node7 gave no heartbeat for 12 min"."""
    lost = [each for each in known_runners(study.folder) if not (each.process.is_here or each.lives())]
    return "".join(f"; {each.process} gave no heartbeat for {as_time(time.time() - each.seen)}" for each in lost)


def _not_to_stop(study: Study, trial: Trial, live: Sequence[Runner]) -> Problem | None:
    state = study.trial_folder(trial).state(trial.key)
    if state in ("finished", "failed"):
        return Problem("TRIAL", f"is {trial.name}, which is {state}", "must be a running or waiting trial")
    if any(trial.name in runner.trials for runner in live):
        return None
    places = ", ".join(str(runner.process) for runner in live)
    return Problem(
        "TRIAL",
        f"is {trial.name}, which is not part of what runs ({places})",
        "must be one of its trials; `allelse status` lists them",
    )


def _said(study: Study, runner: Runner, own: Sequence[str]) -> Iterator[str]:
    where = f"({runner.process})"
    if stop_requests(study.folder, runner) is None:  # also if it stops anyway
        yield f"The sweep {where} {STOPS_SOON}"
        return
    for trial in (trial for trial in study.trials if trial.name in own):
        yield f"{trial.name} {where} {_end(study, runner, trial)}; the other trials go on"


def _end(study: Study, runner: Runner, trial: Trial) -> str:
    """How the trial ends that the process was asked to stop."""
    newest = next(reversed(study.trial_folder(trial).attempts.all()), None)
    if newest is None or newest.process != runner.process:
        return "will not start"
    return STOPS_SOON if newest.ended is None else "has stopped"


def still_runs(study: Study, trial: Trial) -> bool:
    """Whether a process still has the trial to run, or runs it."""
    return bool(in_hand(study.folder, [trial.name], lambda name: study.trial_folder(trial).newest_attempt()))
