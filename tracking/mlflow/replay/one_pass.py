"""What one pass over a study has seen, and how it went so far."""

from dataclasses import dataclass, field

from tracking.mlflow.replay.pass_outcome import PassOutcome, are_damage, problem_lines
from tracking.mlflow.replay.running_trials import RunningTrials
from tracking.mlflow.replay.study_files import Snapshot
from tracking.mlflow.runs import StoredRun
from tracking.study import Study


@dataclass
class Pass:
    """One pass over a study.

    ``stored``: all runs of the study in the store by trial key, or ``STUDY``, if this pass has read
    them. ``points``: how many were sent, by key of each trial that was replayed. ``faults``: each
    with the name of its trial.
    """

    files: Snapshot
    running: RunningTrials
    stored: dict[str, list[StoredRun]] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)
    faults: list[tuple[str, Exception]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def study(self) -> Study:
        return self.files.study

    def outcome(self) -> PassOutcome:
        return PassOutcome(
            runs=len(self.points),
            points=sum(self.points.values()),
            problems=problem_lines(self.faults),
            notices=tuple(self.notices),
            lasting=bool(self.faults) and are_damage(self.faults),
            remarks=tuple(self.remarks),
        )
