"""Score trained weights with other settings: the task's own work, with the code that the study
recorded, in this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from tempfile import TemporaryDirectory
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.tasks import TaskSource, load_task
from sweeps.planning.user_code.versions import recorded_code
from sweeps.problems import damaged, refusal
from sweeps.processes.events import Assignment, Evaluated, Event, Finished, HostWeights, Noticed
from sweeps.task import Problem, RefusedError, Task
from sweeps.trees import dotted, nested
from sweeps.verbs.trained.stored_weights import lineage_of
from sweeps.verbs.trained.trained_trial import TrainedTrial
from sweeps.worker.attempt import Driver
from sweeps.worker.user_code.folder import ready_code
from sweeps.worker.user_code.imports import running_code
from tracking.files import DamagedFileError
from tracking.provenance import scored_by


class NotScoredError(RuntimeError):
    """The work ended without finite scores."""


def by_recorded_code(trained: TrainedTrial) -> TrainedTrial:
    """The trial as the code of its last attempt scores it, whatever your files contain now.

    Raises RefusedError if the study has lost that code.
    """
    try:
        code = recorded_code(trained.folder.parent, _code_of(trained), trained.source)
    except DamagedFileError as error:
        raise RefusedError([damaged(error)]) from None
    return replace(trained, scorer=code)


def sets_of_other_code(trained: TrainedTrial) -> list[str]:
    """The sets of the trial's own result that were scored by code other than its own."""
    if trained.config != trained.trained_config:
        return []
    provenance = trained.files.provenance()
    code = _code_of(trained)
    sets: list[str] = []
    for set_name in trained.scored:
        scoring = scored_by(provenance, set_name)
        if scoring and (scoring.get("code") or "") != code:
            sets.append(set_name)
    return sets


def score(trained: TrainedTrial, print_notice: Callable[[str], None]) -> None:
    """Let the work of ``by_recorded_code`` score what has no scores with these settings yet, and
    keep the scores in the folder.

    Raises RefusedError, NotScoredError, and what the work raises.
    """

    def receive(event: Event) -> None:
        match event:
            case Evaluated():
                trained.keep(event)
            case Noticed(text, quiet) if not quiet:
                print_notice(text)
            case Finished(diverged=step) if step is not None:
                raise NotScoredError(f"{trained.name}: a score is not finite")

    with (
        TemporaryDirectory(prefix="allelse-evaluation-") as folder,
        _source_of_scorer(trained) as source,
    ):
        driver = Driver(_assignment(trained, source, folder), receive)
        driver.newest()
        driver.work(0, 1, "", lambda: False)


@contextmanager
def _source_of_scorer(trained: TrainedTrial) -> Iterator[TaskSource]:
    """The task as the code that scores defines it."""
    name = trained.source.name
    study = trained.folder.parent
    ready_code(trained.scorer, study)
    with running_code(trained.scorer, study) as folder:
        if folder is None:
            yield trained.source
        else:
            yield TaskSource(name, str(folder), load_task(name, folder))


def _code_of(trained: TrainedTrial) -> str:
    """The hash of your code that its last attempt ran; "" for our own task."""
    return str(trained.files.provenance().get("code") or "")


def _assignment(trained: TrainedTrial, source: TaskSource, folder: str) -> Assignment:
    """An attempt that only scores. ``folder`` is for its own files. Raises RefusedError."""
    result = trained.result()
    _refuse_checkpoint(trained)
    data = replace(trained.task_data, task=source.task)
    return Assignment(
        task=source.name,
        folder=source.folder,
        config=_config_for(trained, source.task),
        seed=result["seed"],
        attempt=trained.attempt,
        data_folder=str(data.place),
        data_fingerprint=data.fingerprint,
        checkpoints=folder,
        key=trained.key,
        prepared_as=data.identity(),
        trial=trained.name,
        weights=_host_weights(trained),
        code=_code_of(trained),
    )


def _refuse_checkpoint(trained: TrainedTrial) -> None:
    """Raises RefusedError for a checkpoint: the work of a task scores the last state only."""
    if trained.step != trained.ended:
        fault = f"is {trained.name}, but this task's work only scores the last state"
        allowed = f"must be {trained.folder.name}, not one of its checkpoints"
        raise refusal("TRIAL", fault, allowed)


def _host_weights(trained: TrainedTrial) -> HostWeights:
    """The trained weights, as an attempt that only scores takes them."""
    weights = trained.weights
    return HostWeights(
        weights.name,
        weights.checkpoints,
        weights.key,
        trained.step,
        weights.attempt,
        lineage_of(weights.files),
        weights.record,
    )


def _config_for(trained: TrainedTrial, task: Task[Any]) -> dict[str, Any]:
    """The settings that the schema of the recorded code has.

    Raises RefusedError if it lacks a typed key.
    """
    own_values = dotted(asdict(trained.trained_config))
    values = dotted(asdict(trained.config))
    keys = Schema.of(task).short_names
    new_keys = [key for key in values if key not in keys]
    typed_keys = [key for key in new_keys if values[key] != own_values[key]]
    if typed_keys:
        fault = f"is not a setting of the code that trained {trained.name}"
        raise RefusedError(Problem(key, fault, "leave it out") for key in typed_keys)
    return nested({key: value for key, value in values.items() if key in keys})
