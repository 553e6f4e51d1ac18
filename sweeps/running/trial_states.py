"""The state of each trial of a running sweep, by the events of its attempts."""

from dataclasses import dataclass

from sweeps.planning.plan import Plan
from sweeps.processes.events import (
    Event,
    Failed,
    Finished,
    Report,
    Resumed,
    Started,
    Stopped,
)
from tracking.files import unless_damaged

COMPLETE = ("finished", "FAILED")
ENDED = (*COMPLETE, "stopped")


@dataclass
class BegunTrial:
    """How far a trial of this sweep is, and the step of its newest complete checkpoint."""

    steps: int
    safe: int
    step: int = 0
    resuming: bool = False  # it starts again, and its first step is not known yet
    host: str = ""  # of its attempt, once known

    def start_again(self) -> None:
        self.resuming = True
        self.host = ""

    def resume(self, step: int) -> None:
        self.resuming = False
        self.be_saved_at(step)

    def be_saved_at(self, step: int) -> None:
        """It is at this step, and so is its checkpoint."""
        self.step = step
        self.safe = step

    def report(self, step: int, checkpoint: int | None) -> None:
        if self.resuming:  # it did not resume
            self.resuming = False
            self.safe = 0
        self.step = step
        if checkpoint is not None:
            self.safe = checkpoint

    def resumes(self, name: str) -> str:
        """The step that it resumes from, and the steps that are lost."""
        if self.safe == self.step == self.steps:
            return f"{name} is trained; its evaluation resumes"
        lost = f"; steps {self.safe + 1} to {self.step} are lost" if self.step > self.safe else ""
        return f"{name} resumes from step {self.safe}{lost}"


class TrialStates:
    """Whether each trial is waiting, starting, running, finished, FAILED or stopped, and how far it
    is.

    The thread that draws the view reads a copy: others change the states meanwhile.
    """

    def __init__(self, plan: Plan) -> None:
        self._pending = {planned.name: planned for planned in plan.pending}
        self._states = {
            planned.name: "waiting" if planned.name in self._pending else "finished"
            for planned in plan.trials
        }
        self.begun: dict[str, BegunTrial] = {}  # by name

    def start(self, name: str) -> None:
        """An attempt at this trial starts."""
        if name not in self.begun:
            self.begun[name] = self._begin(name)
        trial = self.begun[name]
        if trial.safe:
            trial.start_again()
        self._states[name] = "starting"

    def take(self, name: str, event: Event) -> None:
        """Change the state as this event of the trial says."""
        trial = self.begun[name]
        match event:
            case Started(_, hosts):
                self._states[name] = "running"
                trial.host = hosts[0] if hosts else ""
            case Resumed(step):
                trial.resume(step)
            case Report(step, _, _, checkpoint):
                trial.report(step, checkpoint)
            case Stopped(step):
                trial.be_saved_at(step)
                self.stop(name)
            case Finished():
                self._states[name] = "finished"
            case Failed():
                self.fail(name)

    def start_again(self, name: str) -> None:
        """Another attempt follows one that was lost."""
        self._states[name] = "starting"
        self.begun[name].start_again()

    def stop(self, name: str) -> None:
        self._states[name] = "stopped"

    def fail(self, name: str) -> None:
        self._states[name] = "FAILED"

    def copied(self) -> dict[str, str]:
        """The state of each trial now, by name."""
        return dict(self._states)

    def ended(self) -> set[str]:
        """The trials that are over in this run."""
        return {name for name, state in self._states.items() if state in ENDED}

    def failed(self) -> bool:
        """Whether a trial has FAILED."""
        return "FAILED" in self._states.values()

    def complete(self) -> bool:
        """Whether every trial is finished or FAILED."""
        return set(self._states.values()) <= set(COMPLETE)

    def resume_lines(self) -> tuple[str, ...]:
        """One line per running trial: the step that it resumes from, and the steps that are
        lost."""
        return tuple(
            self.begun[name].resumes(name)
            for name, state in self._states.items()
            if name in self.begun and state not in COMPLETE
        )

    def _begin(self, name: str) -> BegunTrial:
        """The trial with the newest checkpoint of an earlier run."""
        planned = self._pending[name]
        reports = unless_damaged(planned.folder.journal, [])
        newest = max((report.checkpoint or 0 for report in reports), default=0)
        return BegunTrial(planned.steps, newest)
