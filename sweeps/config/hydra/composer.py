"""What Hydra composes from a task's files: the tree, the option of each group, the files."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.types import RunMode
from omegaconf import OmegaConf

from sweeps.command_task.command_task import platform_values
from sweeps.config.files import BASE, CONFIG, Folders
from sweeps.config.hydra.refusals import refusals
from sweeps.config.hydra.surrogates import join_surrogates
from sweeps.config.hydra.text_files import TextFiles
from sweeps.config.hydra.typed_override import in_ascii
from sweeps.trees import Tree
from tracking.shell import quoted


def option(group: str, name: str) -> str:
    """The choice of a group's option, as ``Composer`` takes it."""
    return f"{group}={quoted(name)}"


class Composer:
    """Composes the files in ``folders``, each combination of options once."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self._composed: dict[tuple[str, ...], Tree] = {}

    def compose(self, *options: str) -> Tree:
        """As ``hydra.compose("config", options)``. References aren't resolved yet. Raises
        RefusedError."""
        tree = self._composed_once(options)
        return {key: value for key, value in tree.items() if key != "hydra"}

    def choices(self, *options: str) -> dict[str, str]:
        """The option of each group in this composition. Raises RefusedError."""
        choices = self._composed_once(options)["hydra"]["runtime"]["choices"]
        return {
            str(group): str(name)
            for group, name in choices.items()
            if not group.startswith("hydra/")
        }

    def files(self, *options: str) -> list[tuple[Path, str]]:
        """The composed files, each with its package. A later file's values win. Raises
        RefusedError."""
        with refusals(self.folders, options), self._initialized():
            loader = GlobalHydra.instance().config_loader()
            overrides = self._hydra_overrides(options)
            defaults = loader.compute_defaults_list(CONFIG, overrides, RunMode.RUN).defaults
        paths = [
            (self.folders.find(default.config_path or ""), default.package or "")
            for default in defaults
        ]
        return [(path, package) for path, package in paths if path is not None]

    def _composed_once(self, options: tuple[str, ...]) -> Tree:
        """The composed tree with the group ``hydra``. Raises RefusedError."""
        if options not in self._composed:
            self._composed[options] = self._compose(options)
        return self._composed[options]

    def _compose(self, options: tuple[str, ...]) -> Tree:
        with refusals(self.folders, options), self._initialized():
            overrides = self._hydra_overrides(options)
            config = compose(CONFIG, overrides, return_hydra_config=True)
            container: Any = OmegaConf.to_container(config)
            return dict(join_surrogates(container))

    def _initialized(self) -> Any:
        """Hydra's context in which it finds the task's files."""
        Plugins.instance().register(TextFiles)
        self._declare_base(ConfigStore.instance())
        GlobalHydra.instance().clear()
        return initialize_config_dir(str(self.folders.searched[0]), version_base="1.3")

    def _declare_base(self, store: ConfigStore) -> None:
        """Give Hydra the base that the task declares in Python, unless a file has it."""
        task = self.folders.source.task
        store.repo.pop(f"{BASE}.yaml", None)  # of another task
        if task.base is not None and self.folders.find(BASE) is None:
            store.store(BASE, asdict(task.base) | platform_values(task))

    def _hydra_overrides(self, options: tuple[str, ...]) -> list[str]:
        """What Hydra gets: where to search, and the options."""
        urls = [f"{TextFiles.scheme()}://{folder}" for folder in self.folders.searched[1:]]
        search_path = ", ".join(map(quoted, urls))  # as Hydra reads paths
        return [f"hydra.searchpath=[{search_path}]", *map(in_ascii, options)]
