"""Rows of a study from ``conf/`` and the command line: base → row → scale → overrides, checked, all errors at once."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sweeps.files import SHIPPED, Library
from sweeps.overrides import COMMAND_LINE, parse_overrides
from sweeps.settings import Scale, Settings
from transformer.schema import Problem, RefusedError, parse

WIDTH_KEYS = ("d_model", "d_ff", "d_k", "d_v")
WRITTEN_BY_ROWS = ("model", "train", "decode", "data")


@dataclass(frozen=True)
class ComposedRow:
    """One row, and the dotted keys by which it differs from base before the command line speaks."""

    name: str
    settings: Settings
    changes: dict[str, Any]


@dataclass(frozen=True)
class Composition:
    """The rows of a study in the order of its table; ``base`` is what their changes are told against."""

    rows: tuple[ComposedRow, ...]
    base: Settings

    @property
    def shared(self) -> Settings:
        """Settings that no row may change: cluster, sweep, tracking, paths."""
        return self.rows[0].settings


def compose_sweep(words: list[str], here: Path | None = None) -> Composition:
    """Every row that ``sweep.rows`` names. Raises RefusedError with all that is wrong."""
    composer = _Composer(words, here or Path.cwd())
    if "row" in composer.overrides.choices:
        composer.refuse("row", "picks the one row of `ablate train`", "a sweep takes sweep.rows='[base, …]'")
    if "train.seed" in composer.overrides.values:
        composer.refuse("train.seed", "is set by the sweep", "a sweep takes sweep.seeds=[1,2,3]")
    return composer.compose(composer.row_names())


def compose_row(words: list[str], here: Path | None = None) -> Composition:
    """The one row that ``row=`` names, base by default. Raises RefusedError with all that is wrong."""
    composer = _Composer(words, here or Path.cwd())
    for key in ("sweep.rows", "sweep.seeds"):
        if key in composer.overrides.values:
            composer.refuse(key, "is for `ablate sweep`", "one trial takes row=NAME and train.seed=N")
    return composer.compose([composer.overrides.choices.get("row", "base")])


class _Composer:
    """Collects problems while it composes, so that they can be told together."""

    def __init__(self, words: list[str], here: Path) -> None:
        self.here, self.library = here, Library(here)
        self.overrides, self.problems = parse_overrides(words, self.library)
        self.problems += self.library.shadows()

    def refuse(self, key: str, found: str, allowed: str) -> None:
        self.problems.append(Problem(key, found, allowed, None, COMMAND_LINE))

    def row_names(self) -> list[str]:
        """``sweep.rows``, less the names that no file has, which are refused."""
        with self._hydra():
            asked = OmegaConf.select(self._raw("base"), "sweep.rows")
        asked = self.overrides.values.get("sweep.rows", asked)
        if not isinstance(asked, Iterable) or isinstance(asked, str) or not list(asked):
            self.refuse("sweep.rows", f"is {asked}", "must be a list of rows, such as [base,big]")
            return []
        names, place = [str(name) for name in asked], COMMAND_LINE if "sweep.rows" in self.overrides.values else ""
        for name in names:
            problem = self.library.unknown_option("row", name, place)
            if problem:
                self.problems.append(replace(problem, key="sweep.rows"))
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.refuse("sweep.rows", f"lists {name} {names.count(name)} times", "must list each row once")
        return [name for name in dict.fromkeys(names) if name in self.library.options("row")]

    def compose(self, names: list[str]) -> Composition:
        with self._hydra():
            pristine = {name: self._scaled(name) for name in dict.fromkeys(["base", *names])}
        changes = {name: _differences(pristine["base"], tree) for name, tree in pristine.items()}
        self._refuse_changed_keys({name: changes[name] for name in names})
        settings = {name: self._settings(name, tree) for name, tree in pristine.items()}
        if self.problems:
            raise RefusedError(dict.fromkeys(self.problems))
        complete = {name: value for name, value in settings.items() if value is not None}
        rows = tuple(ComposedRow(name, complete[name], changes[name]) for name in names)
        return Composition(rows, complete["base"])

    @contextmanager
    def _hydra(self) -> Iterator[None]:
        GlobalHydra.instance().clear()
        with initialize_config_dir(str(SHIPPED), version_base="1.3"):
            yield

    def _raw(self, row: str) -> DictConfig:
        """What the files say for one row, before any value of the command line."""
        words = [f"{group}={name}" for group, name in {**self.overrides.choices, "row": row}.items()]
        if self.library.own:
            words.append(f"hydra.searchpath=[file://{self.library.own}]")
        try:
            config = hydra_compose("config", overrides=words)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            place = self.library.show(self.library.path("row", row))
            raise RefusedError(
                [
                    *self.problems,
                    Problem(row, f"cannot be composed: {error}", "must be YAML of known groups", None, place),
                ]
            ) from error
        OmegaConf.set_struct(config, False)
        return config

    def _scaled(self, row: str) -> dict[str, Any]:
        """One row as plain data after scaling, the rest of the command line still to come."""
        config = self._raw(row)
        for key, value in self.overrides.values.items():
            if key.startswith("scale."):
                OmegaConf.update(config, key, value, force_add=True)
        scale, problems = parse(Scale, OmegaConf.to_container(config.scale, resolve=True), "scale")
        self._note(problems, row)
        if scale is not None:
            self._note(_apply_scale(config, scale), row)
        plain = OmegaConf.to_container(config, resolve=False)
        assert isinstance(plain, dict)
        return {str(key): value for key, value in plain.items()}

    def _settings(self, row: str, tree: dict[str, Any]) -> Settings | None:
        """One row complete: overrides are final values."""
        config = OmegaConf.create(tree)
        with open_dict(config):
            for key, value in self.overrides.values.items():
                OmegaConf.update(config, key, value, force_add=True)
        try:
            plain = OmegaConf.to_container(config, resolve=True)
        except OmegaConfBaseException as error:
            self.refuse(str(error.full_key or row), str(error.msg), "must refer to a key that exists")
            return None
        settings, problems = parse(Settings, plain)
        self._note(problems, row)
        if settings is not None:
            settings = absolute(settings, self.here)
            self._note([*settings.trial.problems(), *_sweep_problems(settings)], row)
        return settings

    def _note(self, problems: Iterable[Problem], row: str) -> None:
        """Keep the problems, each with the place that set the value."""
        choices = {**self.library.defaults, **self.overrides.choices, "row": row}
        for problem in problems:
            key = problem.key
            place = COMMAND_LINE if key in self.overrides.values else self.library.locate(key, choices)
            self.problems.append(replace(problem, place=problem.place or place))

    def _refuse_changed_keys(self, changes: dict[str, dict[str, Any]]) -> None:
        """An override of what a row changes would take the row's difference away."""
        for key in self.overrides.values:
            rows = [row for row, changed in changes.items() if key in changed]
            if rows:
                found = f"is what {', '.join(rows)} change{'s' * (len(rows) == 1)}"
                self.refuse(key, found, "leave it to the rows, or select rows that keep base's value")


def _apply_scale(config: DictConfig, scale: Scale) -> list[Problem]:
    """Divide widths, depths and steps in place; what does not divide is said."""
    divisions = [("model", name, "width", scale.width) for name in WIDTH_KEYS]
    divisions += [("model", "n_layers", "depth", scale.depth), ("train", "steps", "steps", scale.steps or 1)]
    problems = []
    for group, name, divisor_name, divisor in divisions:
        value = config[group][name]
        if not isinstance(value, int) or isinstance(value, bool):
            continue  # the schema will say so
        if value % divisor:
            allowed = f"must divide {group}.{name}, which is {value}"
            problems.append(Problem(f"scale.{divisor_name}", f"is {divisor}", allowed))
        else:
            config[group][name] = value // divisor
    return problems


def _differences(base: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Dotted keys and values by which a row differs from base in what rows may write."""
    return {
        f"{group}.{key}": value
        for group in WRITTEN_BY_ROWS
        for key, value in row[group].items()
        if value != base[group].get(key, object())
    }


def _sweep_problems(settings: Settings) -> list[Problem]:
    sweep, problems = settings.sweep, []
    if not sweep.seeds or len(set(sweep.seeds)) < len(sweep.seeds):
        problems.append(Problem("sweep.seeds", f"is {sweep.seeds}", "must list each seed once, and at least one"))
    name = settings.study_folder.name
    if sweep.name is not None and (name != sweep.name or sweep.name.startswith(".")):
        problems.append(Problem("sweep.name", f'is "{sweep.name}"', "must be the name of a folder in paths.runs"))
    return problems


def absolute(settings: Settings, here: Path) -> Settings:
    """The same with every local path absolute: workers have another working directory."""

    def path(text: str) -> str:
        return text if "://" in text else str((here / Path(text).expanduser()).resolve())

    paths, data = settings.paths, settings.data
    checkpoints = paths.checkpoints and path(paths.checkpoints)
    return replace(
        settings,
        paths=replace(paths, runs=path(paths.runs), data=path(paths.data), checkpoints=checkpoints),
        data=replace(
            data,
            mirror=data.mirror and path(data.mirror),
            train=data.train and [path(name) for name in data.train],
            dev=data.dev and [path(name) for name in data.dev],
            test=data.test and [path(name) for name in data.test],
        ),
    )
