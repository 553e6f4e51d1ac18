"""Trained weights scored with other settings, by the task's own work in this process."""

from collections.abc import Callable
from dataclasses import asdict
from tempfile import TemporaryDirectory

from sweeps.task import Problem, RefusedError
from sweeps.verbs.stored_weights import lineage_of
from sweeps.verbs.trained_trial import TrainedTrial
from sweeps.worker.attempt import Driver
from sweeps.worker.events import Assignment, Evaluated, Event, Finished, HostWeights, Noticed
from sweeps.worker.prepared import identity


class NotScoredError(RuntimeError):
    """The work has ended without scores that are numbers."""


def score(trained: TrainedTrial, say: Callable[[str], None]) -> None:
    """Let the work score what has no scores with these settings, and keep it in the trial's folder.

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

    with TemporaryDirectory(prefix="allelse-evaluation-") as folder:
        driver = Driver(_assignment(trained, folder), take)
        driver.newest()
        driver.work(0, 1, "", lambda: False)


def _assignment(trained: TrainedTrial, folder: str) -> Assignment:
    """The work of an attempt that only scores. ``folder`` is for its own files."""
    result, at, source = trained.result(), trained.weights, trained.source
    if trained.step != trained.ended:
        found = f"is {trained.name}, but this task's work scores the last state alone"
        raise RefusedError([Problem("TRIAL", found, f"must be {trained.folder.name}, not one of its checkpoints")])
    lineage = lineage_of(at.files)
    weights = HostWeights(at.name, at.checkpoints, at.key, trained.step, at.attempt, lineage, at.record)
    code = str(trained.files.provenance().get("code") or "")
    return Assignment(
        task=source.name,
        folder=source.folder,
        config=asdict(trained.config),
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
