"""What the files of ``conf/`` say, layer by layer, before any value of the command line: Hydra reads them here."""

import copy
from functools import cached_property
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeps.files import SHIPPED, Library
from sweeps.overrides import Overrides
from transformer.schema import Problem

Tree = dict[str, Any]


class LayerError(ValueError):
    """Files that Hydra cannot compose; carries the problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class Layers:
    """Base with a row, and the scale that comes on top of them; references are not resolved yet."""

    def __init__(self, library: Library, overrides: Overrides) -> None:
        self.library, self.choices = library, overrides.choices
        self._rows: dict[str, Tree] = {}  # Hydra takes long over each

    @cached_property
    def scale(self) -> Tree:
        """What the chosen scale's file sets. Raises LayerError."""
        path = self.library.path("scale", self.choices.get("scale", self.library.defaults["scale"]))
        try:
            return _plain(OmegaConf.load(path))
        except (OmegaConfBaseException, yaml.YAMLError) as error:
            raise self._failed("scale", path.stem, error) from error

    def scaled(self, row: Tree) -> Tree:
        """The scale's values on top of a row's."""
        return _plain(OmegaConf.merge(OmegaConf.create(row), OmegaConf.create(self.scale)))

    def row(self, name: str) -> Tree:
        """Base and this row, at the paper's size. Raises LayerError."""
        if name not in self._rows:
            self._rows[name] = self._composed(name)
        return copy.deepcopy(self._rows[name])

    def _composed(self, name: str) -> Tree:
        chosen = {group: option for group, option in self.choices.items() if group not in ("row", "scale")}
        words = ["~scale", f"row={name}", *(f"{group}={option}" for group, option in chosen.items())]
        if self.library.own:
            path = str(self.library.own).replace("\\", "\\\\").replace("'", "\\'")
            words.append(f"hydra.searchpath=['file://{path}']")
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(SHIPPED), version_base="1.3"):
                return _plain(hydra_compose("config", overrides=words))
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            raise self._failed("row", name, error) from error

    def _failed(self, group: str, name: str, error: Exception) -> LayerError:
        place = self.library.show(self.library.path(group, name))
        found = f"cannot be composed: {str(error).splitlines()[0]}"
        return LayerError(Problem(f"{group} {name}", found, "must name groups and files of conf/", None, place))


def _plain(config: Any) -> Tree:
    content = OmegaConf.to_container(config)
    return {str(key): value for key, value in content.items()} if isinstance(content, dict) else {}
