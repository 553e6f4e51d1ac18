"""The copy of a published study to which MLflow's files are added, so that the original stays as it
is."""

import shutil
from dataclasses import replace

from sweeps.config.settings import Settings
from sweeps.processes.storage import user_cache
from tracking.published_study import is_published
from tracking.study import Study, read_study


def writable(study: Study, settings: Settings) -> tuple[Study, Settings]:
    """The study and its settings; those of its copy if it is published."""
    if not is_published(study.folder):
        return study, settings
    runs = user_cache() / study.mark
    shutil.copytree(study.folder, runs / study.name, dirs_exist_ok=True)
    paths = replace(settings.paths, runs=str(runs))
    return read_study(runs / study.name), replace(settings, paths=paths)
