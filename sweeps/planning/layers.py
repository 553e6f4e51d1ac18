"""The values in the files of ``conf/``, layer by layer, before overrides: Hydra reads them here."""

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

from sweeps.planning.overrides import Overrides
from sweeps.planning.settings import Settings
from sweeps.planning.yaml_files import ABOUT_ALL_GROUPS, SHIPPED, Library
from transformer.schema import Problem
from transformer.versions import current_names

Tree = dict[str, Any]


class LayerError(ValueError):
    """Files that Hydra cannot compose; carries the problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class Layers:
    """Base with a row, and the scale on top of both. References are not resolved yet."""

    def __init__(self, library: Library, overrides: Overrides) -> None:
        self.library, self.choices = library, overrides.choices

    def row(self, name: str) -> Tree:
        """Base and this row, at the paper's size. Raises LayerError."""
        try:
            row = self._file("row", name)
            if "defaults" in row:
                return self._composed([f"row={name}"])
            return _merged(self._base, row)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            raise self._failed("row", name, error) from error

    def scaled(self, row: Tree) -> Tree:
        """The scale's values on top of a row's. Raises LayerError."""
        name = self.choices.get("scale", self.library.defaults["scale"])
        try:
            return _merged(row, self._file("scale", name))
        except (OmegaConfBaseException, yaml.YAMLError) as error:
            raise self._failed("scale", name, error) from error

    def _file(self, group: str, name: str) -> Tree:
        return _plain(OmegaConf.load(self.library.path(group, name)))

    @cached_property
    def _base(self) -> Tree:
        """The values before any row, composed once because Hydra takes a fifth of a second."""
        return self._composed(["~row"])

    def _composed(self, overrides: list[str]) -> Tree:
        chosen = {group: option for group, option in self.choices.items() if group not in ABOUT_ALL_GROUPS}
        overrides = ["~scale", *overrides, *(f"{group}={option}" for group, option in chosen.items())]
        if self.library.own:
            path = str(self.library.own).replace("\\", "\\\\").replace("'", "\\'")
            overrides.append(f"hydra.searchpath=['file://{path}']")
        GlobalHydra.instance().clear()
        with initialize_config_dir(str(SHIPPED), version_base="1.3"):
            return _plain(hydra_compose("config", overrides=overrides))

    def _failed(self, group: str, name: str, error: Exception) -> LayerError:
        place = self.library.show(self.library.path(group, name))
        found = f"cannot be composed: {str(error).splitlines()[0]}"
        return LayerError(Problem(f"{group} {name}", found, "must name groups and files that conf/ has", None, place))


def _plain(config: Any) -> Tree:
    content = OmegaConf.to_container(config)
    return current_names(
        Settings, {str(key): value for key, value in content.items()} if isinstance(content, dict) else {}
    )


def _merged(below: Tree, above: Tree) -> Tree:
    """A copy with groups merged key by key, as Hydra merges them."""
    merged = copy.deepcopy(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else copy.deepcopy(value)
    return merged
