"""One trial as the live view shows it: how far its attempt is, what that promises, and from where it would resume."""

import time
from dataclasses import dataclass, field
from functools import cached_property

from sweeps.planning.plan import PlannedTrial
from sweeps.running.forecast import Ongoing
from tracking.damage import unless_damaged
from tracking.formats import stopped_at

ACTIVE = ("starting", "running", "evaluating", "stopped")


@dataclass
class ShownTrial:
    """Times are seconds of ``time.monotonic``."""

    planned: PlannedTrial
    state: str
    step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    began: float | None = None  # when this attempt first reported, or resumed
    began_step: int = 0
    note: str = ""
    safe: int = 0  # step of the newest complete checkpoint
    hosts: tuple[str, ...] = ()
    trained: float | None = None  # when this attempt ended its training
    asked: float | None = None  # when it was started

    @staticmethod
    def of(planned: PlannedTrial) -> "ShownTrial":
        """Before the sweep begins."""
        result = planned.folder.finished_result(planned.trial.key)
        if result is not None and planned.is_scored(result):
            return ShownTrial(planned, "finished", result["step"], note=stopped_at(result))
        reports = unless_damaged(planned.folder.journal, [])
        return ShownTrial(planned, "waiting", safe=max((report.checkpoint or 0 for report in reports), default=0))

    @property
    def name(self) -> str:
        return self.planned.trial.name

    @cached_property
    def steps(self) -> int:
        return self.planned.steps

    @cached_property
    def effort(self) -> float:
        return self.planned.effort

    @property
    def progress(self) -> str:
        return f"{self.step}/{self.steps}" if self.state == "running" else self.state

    @property
    def active(self) -> bool:
        """Whether it was started by this sweep and did not finish or fail."""
        return self.state in ACTIVE and self.asked is not None

    @property
    def seconds_left(self) -> float | None:
        """Extrapolated from this attempt's pace; None before its second report."""
        if self.state != "running" or self.began is None or self.step <= self.began_step:
            return None
        pace = (time.monotonic() - self.began) / (self.step - self.began_step)
        return pace * (self.steps - self.step)

    def ongoing(self, evaluation_s: float) -> Ongoing:
        """What this attempt did, and what is left, if an evaluation takes so long."""
        per_step, runs = self.effort / self.steps, self.active and self.state != "stopped"
        seconds = 0.0 if self.began is None else (self.trained or time.monotonic()) - self.began
        left = self.steps - self.step if runs else 0
        after = max(0.0, evaluation_s - self.evaluated_s) if runs else 0.0
        return Ongoing(per_step * max(0, self.step - self.began_step), per_step * left, seconds, runs, after)

    @property
    def start_s(self) -> float:
        """Seconds until its first report."""
        return 0.0 if self.began is None or self.asked is None else self.began - self.asked

    @property
    def evaluated_s(self) -> float:
        """Seconds since its training ended."""
        return 0.0 if self.trained is None else time.monotonic() - self.trained

    @property
    def resumes(self) -> str:
        """The step that it resumes from, and the steps that are lost."""
        if self.state == "evaluating" or (self.state == "stopped" and self.step == self.steps):
            return f"{self.name} is trained; its evaluation resumes"
        lost = f"; steps {self.safe + 1} to {self.step} are lost" if self.step > self.safe else ""
        return f"{self.name} resumes from step {self.safe}{lost}"
