"""Published studies stay as they are: MLflow's files are added to a copy, and other changes are
refused with the command that makes a copy to continue."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.problems import refusal
from sweeps.processes.storage import user_cache
from tracking.published_study import MARK, is_published
from tracking.shell import shell_line
from tracking.study import Study, read_study

if TYPE_CHECKING:
    from sweeps.config.settings import Settings


def writable(study: Study, settings: "Settings") -> "tuple[Study, Settings]":
    """The study and its settings; those of its copy if it is published."""
    if not is_published(study.folder):
        return study, settings
    runs = user_cache() / study.mark
    shutil.copytree(study.folder, runs / study.name, dirs_exist_ok=True)
    paths = replace(settings.paths, runs=str(runs))
    return read_study(runs / study.name), replace(settings, paths=paths)


def refuse_published(study: Path) -> None:
    """Raises RefusedError for a published study."""
    if is_published(study):
        fault = "is published, and only `allelse publish` changes it"
        raise refusal(study.name, fault, f"to continue it, type `{continuing(study)}`")


def continuing(study: Path) -> str:
    """The shell command after which a published study can be continued from `runs/`."""
    copy = Path("runs") / study.name
    unmark = shell_line(["rm", str(copy / MARK)])
    if copy.exists():
        return unmark
    original = os.path.relpath(study)
    return f"mkdir -p runs && {shell_line(['cp', '-r', original, 'runs/'])} && {unmark}"
