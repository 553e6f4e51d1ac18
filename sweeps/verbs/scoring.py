"""Trained weights scored with other settings, by the task's own work in this process, as the study
recorded it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from tempfile import TemporaryDirectory
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.tasks import TaskSource, load_task
from sweeps.planning.user_code.versions import recorded_code
from sweeps.problems import damaged
from sweeps.task import Problem, RefusedError, Task
from sweeps.trees import dotted, nested
from sweeps.verbs.stored_weights import lineage_of
from sweeps.verbs.trained_trial import TrainedTrial
from sweeps.worker.attempt import Driver
from sweeps.worker.events import Assignment, Evaluated, Event, Finished, HostWeights, Noticed
from sweeps.worker.prepared import identity
from sweeps.worker.user_code.folder import ready_code
from sweeps.worker.user_code.imports import running_code
from tracking.files import DamagedFileError
from tracking.provenance import scored_by


class NotScoredError(RuntimeError):
    """The work has ended without scores that are numbers."""


def by_recorded_code(trained: TrainedTrial) -> TrainedTrial:
    """The trial as the code of its last attempt scores it, whatever the user's files are now.

    Raises RefusedError if the study has lost that code.
    """
    try:
        code = recorded_code(trained.folder.parent, _code_of(trained), trained.source)
    except DamagedFileError as error:
        raise RefusedError([damaged(error)]) from None
    return replace(trained, scorer=code)


def sets_of_other_code(trained: TrainedTrial) -> list[str]:
    """The sets of the trial's own result that other code scored than its own."""
    if trained.config != trained.own:
        return []
    provenance = trained.files.provenance()
    code = _code_of(trained)
    scorings = {on: scored_by(provenance, on) for on in trained.scored}
    return [
        on for on, scoring in scorings.items() if scoring and (scoring.get("code") or "") != code
    ]


def score(trained: TrainedTrial, say: Callable[[str], None]) -> None:
    """Let the work of ``by_recorded_code`` score what has no scores with these settings, and keep
    it in the folder.

    ``say`` gets the notices. Raises RefusedError, NotScoredError, and what the work raises.
    """

    def take(event: Event) -> None:
        match event:
            case Evaluated():
                trained.keep(event)
            case Noticed(text, quiet) if not quiet:
                say(text)
            case Finished(diverged=step) if step is not None:
                raise NotScoredError(f"{trained.name}: a score is not finite")

    with (
        TemporaryDirectory(prefix="allelse-evaluation-") as folder,
        _source_of_scorer(trained) as source,
    ):
        driver = Driver(_assignment(trained, source, folder), take)
        driver.newest()
        driver.work(0, 1, "", lambda: False)


@contextmanager
def _source_of_scorer(trained: TrainedTrial) -> Iterator[TaskSource]:
    """The task as the code that scores has it."""
    source = trained.source
    code = trained.scorer
    study = trained.folder.parent
    ready_code(code, study)
    with running_code(code, study) as folder:
        yield (
            source
            if folder is None
            else TaskSource(source.name, str(folder), load_task(source.name, folder))
        )


def _code_of(trained: TrainedTrial) -> str:
    """The hash of the user's code of its last attempt; "" for our own task."""
    return str(trained.files.provenance().get("code") or "")


def _assignment(trained: TrainedTrial, source: TaskSource, folder: str) -> Assignment:
    """The work of an attempt that only scores. ``folder`` is for its own files."""
    result = trained.result()
    at = trained.weights
    code = _code_of(trained)
    if trained.step != trained.ended:
        found = f"is {trained.name}, but this task's work scores the last state alone"
        raise RefusedError(
            [Problem("TRIAL", found, f"must be {trained.folder.name}, not one of its checkpoints")]
        )
    lineage = lineage_of(at.files)
    weights = HostWeights(
        at.name, at.checkpoints, at.key, trained.step, at.attempt, lineage, at.record
    )
    return Assignment(
        task=source.name,
        folder=source.folder,
        config=_config_for(trained, source.task),
        seed=result["seed"],
        attempt=trained.attempt,
        data_folder=str(trained.data_folder),
        data_fingerprint=trained.fingerprint,
        checkpoints=folder,
        key=trained.key,
        prepared_as=identity(source.task, trained.data_folder, trained.fingerprint, code),
        trial=trained.name,
        weights=weights,
        code=code,
    )


def _config_for(trained: TrainedTrial, task: Task[Any]) -> dict[str, Any]:
    """The settings as the schema of the recorded code has them. Raises RefusedError for typed keys
    that it lacks."""
    own = dotted(asdict(trained.own))
    values = dotted(asdict(trained.config))
    newer = [key for key in values if key not in Schema.of(task).short_names]
    found = f"is not known to the code that trained {trained.name}"
    problems = [Problem(key, found, "leave it out") for key in newer if values[key] != own[key]]
    if problems:
        raise RefusedError(problems)
    return nested({key: value for key, value in values.items() if key not in newer})
