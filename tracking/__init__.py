"""The study on disk, MLflow and the table. ``load`` opens a study in a notebook: docs/notebook.md."""

from tracking.frames import StudyFrames, load

__all__ = ["StudyFrames", "load"]
