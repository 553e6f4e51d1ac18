"""Hydra and OmegaConf: a task's configuration composed, overrides read by their grammar, references
resolved.

No other module imports them. What this one returns is plain data.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as Override
from hydra.core.plugins import Plugins
from hydra.core.utils import setup_globals
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.config_source import ConfigLoadError, ConfigResult
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeps.command_task.command_task import platform_values
from sweeps.config.files import (
    BASE,
    CONFIG,
    HEADER,
    Folders,
    file_problems,
    line_of_default,
    lines_of,
    reason_of,
)
from sweeps.config.key_hints import KeyHints
from sweeps.config.schema import Schema
from sweeps.config.settings import tree_type
from sweeps.config.tasks import TaskSource
from sweeps.fields import keys
from sweeps.function_task import GROUP
from sweeps.problems import Problem, RefusedError, Typo
from sweeps.trees import Tree, dotted
from tracking.shell import quoted

ITEM = re.compile(r"""(?P<quoted>"[^"]*"|'[^']*')|(?P<plain>[^\[\]{},'":()]+)""")
CALL = re.compile(r"\$\{\s*(?!oc\.)[\w.]+\s*:")
"""A resolver's call. OmegaConf's own resolvers, which start with ``oc.``, always give the same
value."""
HOW_TO_REFER = "a reference must look like ${group.key} and name a key that exists"
HOW_TO_COMPOSE = "must be YAML that Hydra composes, in UTF-8"
FIXED = ("scale", "cluster", "tracking", "sweep")
"""Groups whose option is the same for all rows."""


class Library:
    """The configuration of a task for a command in the folder ``here``: its keys, and what Hydra
    composes.

    ``keys`` has the type of each dotted key. ``row_keys`` are the keys that a row may change, in
    the order of the schema. Each combination of options is composed once.
    """

    def __init__(self, source: TaskSource, here: Path) -> None:
        self.source = source
        self.task = source.task
        self.folders = Folders(here, source)
        self.schema = Schema.of(source.task)
        self.keys = keys(tree_type(source.task))
        self.hints = KeyHints(self.schema, self.keys)
        self.row_keys = [key for key in self.keys if key.split(".")[0] in self.schema.groups]
        self._composed: dict[tuple[str, ...], Tree] = {}

    @cached_property
    def defaults(self) -> dict[str, str]:
        """The default option of each group. Raises RefusedError if the task has no base."""
        base = self.folders.find(BASE)
        if base is not None:
            file_problems(base, self.folders.show(base), "", self.schema)
        elif self.task.base is None and self.folders.task_path != Path():
            raise RefusedError(self._missing_base())
        return self.choices()

    def choices(self, *options: str) -> dict[str, str]:
        """The option of each group in this composition. Raises RefusedError."""
        choices = self._composed_with_hydra(options)["hydra"]["runtime"]["choices"]
        return {
            str(group): str(name)
            for group, name in choices.items()
            if not group.startswith("hydra/")
        }

    def _missing_base(self) -> list[Problem]:
        """The problem of a task without a base: its file ends in .yml, or there is none."""
        misnamed = self.folders.misnamed("")
        bases = [problem for problem in misnamed if Path(problem.key).stem == BASE]
        if bases:
            return bases
        fault = f"is missing: there is no {self.folders.written_to(BASE)}"
        allowed = f"create it with the keys of {', '.join(self.schema.groups)}"
        return [Problem(BASE, fault, allowed)]

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.defaults)

    def typed(self, text: str) -> "TypedOverride | None":
        """One override of the command line; None if Hydra cannot read it."""
        override = parsed(text, self.folders)
        if override is None or not override.key_or_group:
            return None
        return TypedOverride(text, self.key_of(override.key_or_group), override)

    def key_of(self, name: str) -> str:
        """The key that ``name`` means: ``args.width`` for ``width``, if the task is a function."""
        key = f"{GROUP}.{name}"
        return key if key in self.keys and name not in self.keys else name

    def compose(self, *options: str) -> Tree:
        """As ``hydra.compose("config", options)``. References aren't resolved yet. Raises
        RefusedError."""
        tree = self._composed_with_hydra(options)
        return {key: value for key, value in tree.items() if key != "hydra"}

    def _composed_with_hydra(self, options: tuple[str, ...] = ()) -> Tree:
        """The composed tree with the group ``hydra``. Raises RefusedError."""
        if options not in self._composed:
            self._composed[options] = self._compose(options)
        return self._composed[options]

    def _compose(self, options: tuple[str, ...]) -> Tree:
        with _refusals(self.folders, options), self._initialized():
            overrides = self._hydra_overrides(options)
            config = compose(CONFIG, overrides, return_hydra_config=True)
            container: Any = OmegaConf.to_container(config)
            return dict(join_surrogates(container))

    def files(self, *options: str) -> list[tuple[Path, str]]:
        """The composed files, each with its package. A later file's values win. Raises
        RefusedError."""
        with _refusals(self.folders, options), self._initialized():
            loader = GlobalHydra.instance().config_loader()
            overrides = self._hydra_overrides(options)
            defaults = loader.compute_defaults_list(CONFIG, overrides, RunMode.RUN).defaults
        paths = [
            (self.folders.find(default.config_path or ""), default.package or "")
            for default in defaults
        ]
        return [(path, package) for path, package in paths if path is not None]

    def place_of(self, key: str, *options: str) -> str | None:
        """file:line that sets the key in this composition, or its group; None if no file does."""
        files = self._last_first(options)
        for file, package in files:
            if package and not key.startswith(f"{package}."):
                continue
            line = lines_of(file).get(key.removeprefix(f"{package}.") if package else key)
            if line:
                return f"{self.folders.show(file)}:{line}"
        group = key.rpartition(".")[0]
        if not group:
            return None
        group_file = next((file for file, package in files if package == group), None)
        return (
            f"{self.folders.show(group_file)}:1" if group_file else self.place_of(group, *options)
        )

    def _last_first(self, options: tuple[str, ...]) -> list[tuple[Path, str]]:
        """The composed files, the last one first; none if they cannot be composed."""
        try:
            return self.files(*options)[::-1]
        except RefusedError:
            return []

    def _initialized(self) -> Any:
        Plugins.instance().register(TextFiles)
        self._declare_base(ConfigStore.instance())
        GlobalHydra.instance().clear()
        return initialize_config_dir(str(self.folders.searched[0]), version_base="1.3")

    def _declare_base(self, store: ConfigStore) -> None:
        """Give Hydra the base that the task declares in Python, unless a file has it."""
        store.repo.pop(f"{BASE}.yaml", None)  # of another task
        if self.task.base is not None and self.folders.find(BASE) is None:
            store.store(BASE, asdict(self.task.base) | platform_values(self.task))

    def _hydra_overrides(self, options: tuple[str, ...]) -> list[str]:
        """What Hydra gets: where to search, and the options."""
        urls = [f"{TextFiles.scheme()}://{folder}" for folder in self.folders.searched[1:]]
        search_path = ", ".join(map(quoted, urls))  # as Hydra reads paths
        return [f"hydra.searchpath=[{search_path}]", *map(_in_ascii, options)]


class TextFiles(FileConfigSource):
    """Hydra's source of files. It also finds the package after a byte order mark or a license."""

    @staticmethod
    def scheme() -> str:
        return "text"

    def load_config(self, config_path: str) -> ConfigResult:
        file = Path(self.path, self._normalize_file_name(config_path))
        if not file.exists():
            raise ConfigLoadError(f"Config not found: {file}")
        header = HEADER.match(file.read_text("utf-8-sig"))
        with file.open(encoding="utf-8-sig") as text:
            content = OmegaConf.load(text)
        packages = {"package": header["package"] if header else None}
        return ConfigResult(self.provider, f"{self.scheme()}://{self.path}", content, packages)


PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""A letter beyond the first 65 536, as ``json.dumps`` writes it: two surrogates."""


def join_surrogates(value: Any) -> Any:
    """Plain data in which each pair of surrogates is the letter that it stands for."""
    if isinstance(value, dict):
        return {key: join_surrogates(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [join_surrogates(item) for item in value]
    return PAIR.sub(_letter, value) if isinstance(value, str) else value


def _letter(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


@contextmanager
def _refusals(folders: Folders, options: tuple[str, ...]) -> Iterator[None]:
    """Turns what Hydra, OmegaConf and YAML raise into RefusedError."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, OSError) as error:
        raise RefusedError([_problem(error, folders, options)]) from error


def _problem(error: Exception, folders: Folders, options: tuple[str, ...]) -> Problem:
    """The problem with its file, and the line if YAML has one; without a file, with the composed
    row."""
    row = next((text.partition("=")[2] for text in options if text.startswith("row=")), CONFIG)
    marked = Path(getattr(getattr(error, "problem_mark", None), "name", ""))
    file = marked if marked.is_absolute() else folders.find(f"row/{row}")
    if isinstance(error, MissingConfigException) and file is not None:
        missing = _missing_option(str(error.missing_cfg_file), file, folders)
        if missing is not None:
            return missing
    reason, line = reason_of(error)
    fault = f"cannot be composed: {reason}"
    if file is None:
        return Problem(row, fault, HOW_TO_COMPOSE)
    return Problem(file.stem, fault, HOW_TO_COMPOSE, place=f"{folders.show(file)}{line}")


def _missing_option(missing: str, file: Path, folders: Folders) -> Problem | None:
    """The problem of a file whose defaults list names an option that does not exist; None if it is
    another file's list."""
    group, _, name = missing.rpartition("/")
    options = folders.options(group)
    allowed = f"must be one of {', '.join(options)}" if options else HOW_TO_COMPOSE
    line = line_of_default(file, name)
    if line is None:
        return None
    place = f"{folders.show(file)}:{line}"
    fault = f'builds on {group} "{name}", which does not exist'
    return Problem(file.stem, fault, allowed, Typo(name, tuple(options)), place)


def option(group: str, name: str) -> str:
    """The choice of a group's option, as ``compose`` takes it."""
    return f"{group}={quoted(name)}"


@dataclass(frozen=True)
class TypedOverride:
    """An override as you typed it: its ``text``, its ``key`` or group, and how Hydra reads it."""

    text: str
    key: str
    override: Override

    @property
    def is_sweep(self) -> bool:
        """Whether it lists several values."""
        return self.override.is_sweep_override()

    @property
    def value_text(self) -> str:
        return self.text.partition("=")[2].strip()

    @property
    def value_texts(self) -> list[str]:
        """Its values, as you would type them one by one. Raises HydraException if Hydra cannot list
        them."""
        return list(self.override.sweep_string_iterator()) if self.is_sweep else [self.value_text]


def parsed(text: str, folders: Folders | None = None) -> Override | None:
    """One override as Hydra reads it; None if Hydra cannot. ``folders`` has the options for
    ``glob()``."""
    parser = OverridesParser.create()
    try:
        override = parser.parse_overrides([_in_ascii(text)])[0]
    except (HydraException, ValueError, RecursionError):  # ValueError: thousands of digits, too
        return None
    override.config_loader = folders and _Options(folders)  # type: ignore[assignment]
    return override


@dataclass(frozen=True)
class _Options:
    """Gives Hydra the names that ``glob()`` chooses from."""

    folders: Folders

    def get_group_options(self, group: str, results_filter: Any = None) -> list[str]:
        return self.folders.options(group)


def _in_ascii(text: str) -> str:
    """The override with quotes around items that aren't ASCII: Hydra reads those only in quotes."""
    key, equals, value = text.partition("=")
    if value.isascii() or "${" in value or "\\" in value:
        return text
    return f"{key}{equals}{ITEM.sub(_in_quotes, value)}"


def _in_quotes(item: re.Match[str]) -> str:
    text = item[0].strip()
    if item["quoted"] or text.isascii():
        return item[0]
    return item[0].replace(text, f"'{text}'")


def changing_keys(tree: Tree) -> list[str]:
    """The dotted keys whose value changes from call to call: it has ``${now:…}`` or a task's
    resolver."""
    if not any(CALL.search(text) for text in _texts(tree)):
        return []
    calls = count()
    OmegaConf.register_new_resolver("now", lambda *_: str(next(calls)), replace=True)
    try:
        first = dotted(_resolved(tree))
        second = dotted(_resolved(tree))
    except OmegaConfBaseException:  # ``resolved`` reports it with its key
        return []
    finally:
        setup_globals()  # brings Hydra's own clock back
    return [key for key, value in second.items() if repr(value) != repr(first.get(key))]


def changing_problem(key: str, tree: Tree) -> Problem:
    """The refusal of a value that changes from call to call: no command would resume its trial."""
    group, _, name = key.partition(".")
    values = tree[group]
    # a reference instead of a group
    value = values.get(name) if isinstance(values, dict) else values
    fault = f"is {value}, which changes from call to call"
    return Problem(key, fault, "must be a fixed value, so that the same command resumes the trial")


def _texts(value: Any) -> Iterator[str]:
    """All texts in plain data."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _resolved(tree: Tree) -> Any:
    """The tree without references. Raises OmegaConfBaseException."""
    return OmegaConf.to_container(OmegaConf.create(tree), resolve=True)


def resolved(tree: Tree) -> tuple[Tree | None, list[Problem]]:
    """The tree without references such as ``${model.d_model}``, or the problem of the first wrong
    one."""
    if not refers(tree):
        return tree, []
    try:
        plain = _resolved(tree)
    except OmegaConfBaseException as error:
        key = str(error.full_key or "").partition("[")[0]
        reason = str(error).splitlines()[0]
        return None, [Problem(key, f"cannot be resolved: {reason}", HOW_TO_REFER)]
    return plain, []


def refers(value: Any) -> bool:
    """Whether any text in the value may refer to another key."""
    return any("${" in text for text in _texts(value))
