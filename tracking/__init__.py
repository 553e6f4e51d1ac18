"""The study on disk, MLflow and the table. ``load`` opens a study in a notebook: docs/notebook.md."""

from importlib import import_module
from typing import Any

__all__ = ["StudyFrames", "load"]


def __getattr__(name: str) -> Any:
    """Imported once it is asked for: who needs a part of the package should not load all of it."""
    if name in __all__:
        return getattr(import_module("tracking.frames"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
