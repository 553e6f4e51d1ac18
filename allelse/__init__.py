"""What a task imports, ``report`` for a command, and ``load`` for notebooks: ``from allelse import
Metric, Task``. Nothing heavy is loaded."""

import os
from typing import TYPE_CHECKING

from sweeps.function_task import task as task
from sweeps.task import Card as Card
from sweeps.task import Costs as Costs
from sweeps.task import DivergedError as DivergedError
from sweeps.task import Divided as Divided
from sweeps.task import Fingerprinted as Fingerprinted
from sweeps.task import Keep as Keep
from sweeps.task import Metric as Metric
from sweeps.task import MissingStepError as MissingStepError
from sweeps.task import Neutral as Neutral
from sweeps.task import Observes as Observes
from sweeps.task import OtherNames as OtherNames
from sweeps.task import PrecisionChoice as PrecisionChoice
from sweeps.task import Problem as Problem
from sweeps.task import Range as Range
from sweeps.task import RefusedError as RefusedError
from sweeps.task import Saved as Saved
from sweeps.task import Scores as Scores
from sweeps.task import Seed as Seed
from sweeps.task import StateError as StateError
from sweeps.task import Symbol as Symbol
from sweeps.task import Task as Task
from sweeps.task import Told as Told
from sweeps.task import Trained as Trained
from sweeps.task import Trial as Trial
from sweeps.task import Typed as Typed
from tracking.written.report import report as report

if TYPE_CHECKING:
    from tracking.table.frames import StudyFrames


def load(folder: str | os.PathLike[str]) -> "StudyFrames":
    """A study's trials, scores and curves as pandas frames: ``load("runs/synthetic-tiny")``. Raises
    StudyMissing."""
    from tracking.table.frames import load as study_frames

    return study_frames(folder)
