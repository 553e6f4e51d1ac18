"""Hydra and OmegaConf: a task's configuration composed, overrides read by their grammar, references resolved.

The only module that imports them; what leaves it is plain data.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as Override
from hydra.core.plugins import Plugins
from hydra.core.utils import setup_globals
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigLoadError, ConfigResult
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sweeps.config.files import BASE, CONFIG, HEADER, Folders, examined, lines_of, reason_of
from sweeps.config.schema import Schema
from sweeps.config.settings import tree_type
from sweeps.config.tasks import TaskSource
from sweeps.schema import Problem, RefusedError, Tree, dotted, keys
from tracking.words import quoted

ITEM = re.compile(r"""(?P<quoted>"[^"]*"|'[^']*')|(?P<plain>[^\[\]{},'":()]+)""")
CALL = re.compile(r"\$\{\s*(?!oc\.)[\w.]+\s*:")
"""A resolver that is called; those of OmegaConf give the same value each time."""
HOW_TO_REFER = "a reference must look like ${group.key} and name a key that exists"
HOW_TO_COMPOSE = "must be YAML that Hydra composes, in UTF-8"


FIXED = ("scale", "cluster", "tracking", "sweep")
"""Groups whose option is the same for all rows."""


class Library:
    """The configuration of a task for a command in the folder ``here``: its keys with types, and what Hydra composes.

    A row may change ``row_keys``, which have the order of the schema. Each combination of options is composed once.
    """

    def __init__(self, source: TaskSource, here: Path) -> None:
        self.source, self.task, self.folders = source, source.task, Folders(here, source)
        self.schema, self.keys = Schema.of(source.task), keys(tree_type(source.task))
        self.row_keys = [key for key in self.keys if key.split(".")[0] in self.schema.groups]
        self._composed: dict[tuple[str, ...], Tree] = {}

    @cached_property
    def defaults(self) -> dict[str, str]:
        """The default option of each group. Raises RefusedError if the task has no base."""
        if self.folders.find(BASE) is None and self.folders.place != Path():
            groups = ", ".join(self.schema.groups)
            file = self.folders.written_to(BASE)
            found = f"is missing: there is no {file}"
            allowed = f"create it with the keys of {groups}"
            misnamed = self.folders.misnamed("")
            bases = [problem for problem in misnamed if Path(problem.key).stem == BASE]
            raise RefusedError(bases or [Problem(BASE, found, allowed)])
        if (base := self.folders.find(BASE)) is not None:
            examined(base, self.folders.show(base), "", self.schema)
        chosen = self._whole()["hydra"]["runtime"]["choices"].items()
        return {str(group): str(name) for group, name in chosen if not group.startswith("hydra/")}

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.defaults)

    def compose(self, *options: str) -> Tree:
        """As ``hydra.compose("config", options)``, with references that are not resolved yet. Raises RefusedError."""
        return {key: value for key, value in self._whole(options).items() if key != "hydra"}

    def _whole(self, options: tuple[str, ...] = ()) -> Tree:
        if options not in self._composed:
            self._composed[options] = self._compose(options)
        return self._composed[options]

    def _compose(self, options: tuple[str, ...]) -> Tree:
        with _faults_as_problems(self.folders, options), self._initialized():
            found: Any = OmegaConf.to_container(compose(CONFIG, self._typed(options), return_hydra_config=True))
            return dict(joined(found))

    def files(self, *options: str) -> list[tuple[Path, str]]:
        """The composed files, each with its package; a value of a later one counts. Raises RefusedError."""
        with _faults_as_problems(self.folders, options), self._initialized():
            loader = GlobalHydra.instance().config_loader()
            listed = loader.compute_defaults_list(CONFIG, self._typed(options), RunMode.RUN).defaults
        paths = [(self.folders.find(each.config_path or ""), each.package or "") for each in listed]
        return [(path, package) for path, package in paths if path is not None]

    def place_of(self, key: str, *options: str) -> str | None:
        """file:line of the file whose value of the key, or of the group that holds it, counts in this composition."""
        for file, package in self._last_first(options):
            inner = key.removeprefix(f"{package}.") if package else key
            if (inner != key or not package) and (line := lines_of(file).get(inner)):
                return f"{self.folders.show(file)}:{line}"
        group = key.rpartition(".")[0]
        if not group:
            return None
        chosen = next((file for file, package in self._last_first(options) if package == group), None)
        return f"{self.folders.show(chosen)}:1" if chosen else self.place_of(group, *options)

    def _last_first(self, options: tuple[str, ...]) -> list[tuple[Path, str]]:
        """The composed files; none if they cannot be composed."""
        try:
            return self.files(*options)[::-1]
        except RefusedError:
            return []

    def _initialized(self) -> Any:
        Plugins.instance().register(TextFiles)
        GlobalHydra.instance().clear()
        return initialize_config_dir(str(self.folders.searched[0]), version_base="1.3")

    def _typed(self, options: tuple[str, ...]) -> list[str]:
        places = [f"{TextFiles.scheme()}://{folder}" for folder in self.folders.searched[1:]]
        searched = ", ".join(map(quoted, places))  # as Hydra reads paths
        return [f"hydra.searchpath=[{searched}]", *map(_in_ascii, options)]


class TextFiles(FileConfigSource):
    """Hydra's source of files, which also reads a package behind a byte order mark or a license."""

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


def joined(value: Any) -> Any:
    """Plain data in which each pair of surrogates is the letter that it stands for."""
    if isinstance(value, dict):
        return {key: joined(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [joined(item) for item in value]
    return PAIR.sub(_letter, value) if isinstance(value, str) else value


def _letter(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


@contextmanager
def _faults_as_problems(folders: Folders, options: tuple[str, ...]) -> Iterator[None]:
    """Raises RefusedError for what Hydra, OmegaConf and YAML raise."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, OSError) as error:
        raise RefusedError([_problem(error, folders, options)]) from error


def _problem(error: Exception, folders: Folders, options: tuple[str, ...]) -> Problem:
    """With the file, and the line if YAML tells it; otherwise with the row that was composed."""
    row = next((text.partition("=")[2] for text in options if text.startswith("row=")), CONFIG)
    named = Path(getattr(getattr(error, "problem_mark", None), "name", ""))
    file, (reason, line) = named if named.is_absolute() else folders.find(f"row/{row}"), reason_of(error)
    place = f"{folders.show(file)}{line}" if file else None
    return Problem(file.stem if file else row, f"cannot be composed: {reason}", HOW_TO_COMPOSE, None, place)


def option(group: str, name: str) -> str:
    """The choice of a group's option, as ``compose`` takes it."""
    return f"{group}={quoted(name)}"


def parsed(text: str, folders: Folders | None = None) -> Override | None:
    """One override as Hydra reads it; None if it is none. ``folders`` have the options for ``glob()``."""
    parser = OverridesParser.create()
    try:
        override = parser.parse_overrides([_in_ascii(text)])[0]
    except (HydraException, ValueError, RecursionError):  # also a whole number of thousands of digits
        return None
    override.config_loader = folders and _Options(folders)  # type: ignore[assignment]
    return override


@dataclass(frozen=True)
class _Options:
    """What Hydra asks for the names that ``glob()`` chooses from."""

    folders: Folders

    def get_group_options(self, group: str, results_filter: Any = None) -> list[str]:
        return self.folders.options(group)


def listed(override: Override) -> list[str]:
    """The values of a sweep override, each as it would be typed. Raises HydraException if they cannot be listed."""
    return list(override.sweep_string_iterator())


def _in_ascii(text: str) -> str:
    """The override with quotes around each item that has letters beyond ASCII, which Hydra reads only in quotes."""
    key, mark, value = text.partition("=")
    if value.isascii() or "${" in value or "\\" in value:
        return text
    return f"{key}{mark}{ITEM.sub(_in_quotes, value)}"


def _in_quotes(item: re.Match[str]) -> str:
    text = item[0].strip()
    return item[0] if item["quoted"] or text.isascii() else item[0].replace(text, f"'{text}'")


def changing_keys(tree: Tree) -> list[str]:
    """The dotted keys whose value changes from call to call, by ``${now:…}`` or by the task's own resolver."""
    if not any(CALL.search(text) for text in _texts(tree)):
        return []
    calls = count()
    OmegaConf.register_new_resolver("now", lambda *_: str(next(calls)), replace=True)
    try:
        first = dotted(_resolved(tree))
        second = dotted(_resolved(tree))
    except OmegaConfBaseException:  # ``resolved`` names its key
        return []
    finally:
        setup_globals()  # brings Hydra's own clock back
    return [key for key, value in second.items() if repr(value) != repr(first.get(key))]


def changing_problem(key: str, tree: Tree) -> Problem:
    """The refusal of a value that differs in the next call: no command would resume its trial."""
    group, _, name = key.partition(".")
    values = tree[group]
    value = values.get(name) if isinstance(values, dict) else values  # a reference in the place of the group
    fault = f"is {value}, which changes from call to call"
    return Problem(key, fault, "must be a fixed value, so that the same command resumes the trial")


def _texts(value: Any) -> Iterator[str]:
    """All texts in plain data."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value


def _resolved(tree: Tree) -> Any:
    return OmegaConf.to_container(OmegaConf.create(tree), resolve=True)


def resolved(tree: Tree) -> tuple[Tree | None, list[Problem]]:
    """The tree without references such as ``${model.d_model}``, or the problem of the first wrong one."""
    if not refers(tree):
        return tree, []
    try:
        plain = _resolved(tree)
    except OmegaConfBaseException as error:
        key = str(error.full_key or "").partition("[")[0]
        return None, [Problem(key, f"cannot be resolved: {str(error).splitlines()[0]}", HOW_TO_REFER)]
    return plain, []


def refers(value: Any) -> bool:
    """Whether any text in the value may refer to another key."""
    return any("${" in text for text in _texts(value))
