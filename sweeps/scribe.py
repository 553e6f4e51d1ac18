"""What Tune tells about its trials, written down and shown."""

from typing import Any

from ray import tune

from sweeps.progress import Progress
from sweeps.record import Recorder


class Scribe(tune.Callback):  # type: ignore[misc]
    """Attempts are numbered here, before the trial's process exists, and fence what its reports count for."""

    def __init__(self, recorders: dict[str, Recorder], progress: Progress) -> None:
        self.recorders, self.progress = recorders, progress

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune stores its callbacks to restore an experiment, but our memory is the study on disk."""
        return {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        name = trial.config["trial"]
        self.recorders[name].begin()
        self.progress.start(name)

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        name = trial.config["trial"]
        if "event" in result and self.recorders[name].take(result["attempt"], result["event"]):
            self.progress.take(name, result["event"])

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.progress.tick()

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A worker was lost: the next attempt starts from the last whole checkpoint."""
        name, cause = trial.config["trial"], _cause(trial)
        self.recorders[name].end(f"worker lost: {cause}")
        trial.config["retries"] += 1  # the next process is made from this
        trial.config["judged"] = self.recorders[name].judged()
        self.progress.retry(name, cause)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        name, cause = trial.config["trial"], _cause(trial)
        self.recorders[name].fail(cause, str(trial.get_error()))
        self.progress.fail(name, cause)

    def interrupt(self) -> None:
        """The sweep is being stopped: close what is open."""
        for recorder in self.recorders.values():
            recorder.end("interrupted")


def _cause(trial: Any) -> str:
    """One line on what ended the trial's process."""
    error = trial.get_error()
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[0] if lines else ''}"
