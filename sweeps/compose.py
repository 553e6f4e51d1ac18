"""Rows of a study from ``conf/`` and the command line: base → row → scale → overrides, checked, all errors at once."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeps.files import SHIPPED, Library
from sweeps.overrides import COMMAND_LINE, parse_overrides
from sweeps.scaling import apply_scale
from sweeps.settings import Scale, Settings
from transformer.schema import Problem, RefusedError, parse

WRITTEN_BY_ROWS = ("model", "train", "decode", "data")


@dataclass(frozen=True)
class ComposedRow:
    """One row, and the dotted keys by which it differs from base before the command line speaks."""

    name: str
    settings: Settings
    changes: dict[str, Any]


@dataclass(frozen=True)
class Composition:
    """The rows of a study; ``base`` is what their changes are told against, ``listed`` the order of its table."""

    rows: tuple[ComposedRow, ...]
    base: Settings
    listed: tuple[str, ...]

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


def compose_settings(words: list[str], here: Path | None = None) -> Settings:
    """What names a study and where it lies, for the verbs that only read one: no trial has to be complete.

    Raises RefusedError.
    """
    return _Composer(words, here or Path.cwd(), trains=False).compose(["base"]).shared


class _Composer:
    """Collects problems while it composes, so that they can be told together."""

    def __init__(self, words: list[str], here: Path, trains: bool = True) -> None:
        self.here, self.library, self.trains = here, Library(here), trains
        self.overrides, self.problems = parse_overrides(words, self.library)
        self.problems += [*self.library.shadows(), *self.library.broken.values()]
        for group, name in list(self.overrides.choices.items()):
            if group != "row" and self.library.is_broken(group, name):
                del self.overrides.choices[group]  # told above; the default stands in, so that the rest is looked at

    def refuse(self, key: str, found: str, allowed: str) -> None:
        self.problems.append(Problem(key, found, allowed, None, COMMAND_LINE))

    def row_names(self) -> list[str]:
        """``sweep.rows``, less the names that no file has, which are refused."""
        asked = self.overrides.values.get("sweep.rows", self._listed)
        if not isinstance(asked, list) or not asked:
            self._note([Problem("sweep.rows", f"is {asked}", "must be a list of rows, such as [base,big]")], "base")
            return []
        names = [str(name) for name in asked]
        for name in names:
            unknown = self.library.unknown_option("row", name, None)
            self._note([replace(unknown, key="sweep.rows")] if unknown else [], "base")
        for name in sorted({name for name in names if names.count(name) > 1}):
            found = f"lists {name} {names.count(name)} times"
            self._note([Problem("sweep.rows", found, "must list each row once")], "base")
        return [name for name in dict.fromkeys(names) if name in self.library.options("row")]

    def compose(self, names: list[str]) -> Composition:
        """The rows complete. Raises RefusedError with everything found until then."""
        wanted = [name for name in dict.fromkeys(["base", *names]) if not self.library.is_broken("row", name)]
        trees = {name: tree for name in wanted if (tree := self._scaled(name)) is not None}
        if "base" not in trees:
            raise RefusedError(dict.fromkeys(self.problems))
        base = trees["base"]
        changes = {name: _differences(base, tree, WRITTEN_BY_ROWS) for name, tree in trees.items()}
        self._refuse_changed_keys({name: changes[name] for name in names if name in changes})
        for name, tree in trees.items():
            self._refuse_foreign_keys(name, base, tree)
        settings = {name: self._settings(name, tree, base) for name, tree in trees.items()}
        if self.problems:
            raise RefusedError(dict.fromkeys(self.problems))
        complete = {name: value for name, value in settings.items() if value is not None}
        rows = tuple(ComposedRow(name, complete[name], changes[name]) for name in names)
        return Composition(rows, complete["base"], tuple(map(str, self._listed or ())))

    @cached_property
    def _listed(self) -> Any:
        """``sweep.rows`` as the files have it: the order of the study's table."""
        config = self._raw("base")
        return None if config is None else OmegaConf.to_container(config.sweep).get("rows")  # type: ignore[union-attr]

    def _raw(self, row: str) -> DictConfig | None:
        """What the files say for one row, before any value of the command line."""
        words = [f"{group}={name}" for group, name in {**self.overrides.choices, "row": row}.items()]
        if self.library.own:
            path = str(self.library.own).replace("\\", "\\\\").replace("'", "\\'")
            words.append(f"hydra.searchpath=['file://{path}']")
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(SHIPPED), version_base="1.3"):
                config = hydra_compose("config", overrides=words)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            place = self.library.show(self.library.path("row", row))
            found = f"cannot be composed: {str(error).splitlines()[0]}"
            self.problems.append(Problem(f"row {row}", found, "must name groups and files of conf/", None, place))
            return None
        OmegaConf.set_struct(config, False)
        return config

    def _scaled(self, row: str) -> dict[str, Any] | None:
        """One row as plain data after scaling, the rest of the command line still to come.

        References between keys are resolved before, among the values of the paper's size.
        """
        config = self._raw(row)
        if config is None:
            return None
        plain = OmegaConf.to_container(config)
        assert isinstance(plain, dict)
        scales = {key: value for key, value in self.overrides.values.items() if key.startswith("scale.")}
        tree = self._assigned(plain, scales, row)
        if tree is not None:
            scale, problems = parse(Scale, tree.get("scale"), "scale")
            self._note([*problems, *(apply_scale(tree, scale) if scale else [])], row)
        return tree

    def _assigned(self, tree: dict[Any, Any], values: dict[str, Any], row: str) -> dict[str, Any] | None:
        """A copy with these dotted keys set and every reference resolved; None, and told, if one cannot be."""
        tree = copy.deepcopy(tree)
        for key, value in values.items():
            *groups, name = key.split(".")
            node: Any = tree
            for group in groups:
                node = node.get(group) if isinstance(node, dict) else None
            if isinstance(node, dict):
                node[name] = value
        try:
            resolved = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
        except OmegaConfBaseException as error:
            guess = next((key for key, value in values.items() if "${" in str(value)), f"row {row}")
            found = f"cannot be resolved: {str(error).splitlines()[0]}"
            key = str(error.full_key or guess)
            self._note([Problem(key, found, "a reference must be ${group.key} of a key that exists")], row)
            return None
        assert isinstance(resolved, dict)
        return {str(key): value for key, value in resolved.items()}

    def _settings(self, row: str, tree: dict[str, Any], base: dict[str, Any]) -> Settings | None:
        """One row complete: overrides are final values."""
        plain = self._assigned(tree, self.overrides.values, row)
        if plain is None:
            return None
        settings, problems = parse(Settings, plain)
        self._note(problems, row)
        # where keys are wrong by themselves, base's values stand in, so that what is wrong between keys is told too
        looked_at = settings or parse(Settings, _mended(plain, base, problems))[0]
        if looked_at is not None:
            self._note([*(looked_at.trial.problems() if self.trains else []), *_study_problems(looked_at)], row)
        return settings and absolute(settings, self.here)

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

    def _refuse_foreign_keys(self, row: str, base: dict[str, Any], tree: dict[str, Any]) -> None:
        """A row that moved its own runs or cluster would leave its study."""
        groups = [group for group in tree if group not in (*WRITTEN_BY_ROWS, "row", "scale")]
        found, allowed = f"is changed by row {row}", f"a row may change {', '.join(WRITTEN_BY_ROWS)}"
        self._note((Problem(key, found, allowed) for key in _differences(base, tree, groups)), row)


def _differences(base: dict[str, Any], row: dict[str, Any], groups: Iterable[str]) -> dict[str, Any]:
    """Dotted keys and values by which a row differs from base in these groups."""
    return {
        f"{group}.{key}": value
        for group in groups
        if isinstance(row.get(group), dict) and isinstance(base.get(group), dict)
        for key, value in row[group].items()
        if value != base[group].get(key, object())
    }


def _mended(plain: dict[str, Any], base: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """The same with base's value for every key that has a problem, and without the keys that base does not know."""
    mended = copy.deepcopy(plain)
    for problem in problems:
        group, _, name = problem.key.partition(".")
        if not name or not isinstance(mended.get(group), dict):
            mended[group] = copy.deepcopy(base.get(group))
        elif name in base.get(group, {}):
            mended[group][name] = base[group][name]
        else:
            mended[group].pop(name, None)
    return {group: values for group, values in mended.items() if group in base}


def _study_problems(settings: Settings) -> list[Problem]:
    sweep, problems = settings.sweep, []
    if not sweep.seeds or len(set(sweep.seeds)) < len(sweep.seeds):
        problems.append(Problem("sweep.seeds", f"is {sweep.seeds}", "must list each seed once, and at least one"))
    key, name = ("sweep.name", sweep.name) if sweep.name is not None else ("scale.name", settings.scale.name)
    if name in ("", ".", "..") or name != Path(name).name or name.startswith("."):
        problems.append(Problem(key, f'is "{name}"', "must be the name of a folder in paths.runs"))
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
