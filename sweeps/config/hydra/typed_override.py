"""Overrides as you type them, read by Hydra's grammar."""

import re
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from sweeps.config.files import Folders

ITEM = re.compile(r"""(?P<quoted>"[^"]*"|'[^']*')|(?P<plain>[^\[\]{},'":()]+)""")


@dataclass(frozen=True)
class TypedOverride:
    """An override as you typed it: its ``text``, its ``key`` or group, and how Hydra reads it."""

    text: str
    key: str
    as_read: Override

    @property
    def sets_hydra(self) -> bool:
        """Whether it is a setting of Hydra's own program."""
        return self.as_read.is_hydra_override()

    @property
    def removes_key(self) -> bool:
        """Whether it begins with "~"."""
        return self.as_read.is_delete()

    @property
    def adds_key(self) -> bool:
        """Whether it begins with "+" or "++"."""
        return self.as_read.is_add() or self.as_read.is_force_add()

    @property
    def package(self) -> str | None:
        """What follows the group after @; None without one."""
        return self.as_read.package

    @property
    def is_sweep(self) -> bool:
        """Whether it lists several values."""
        return self.as_read.is_sweep_override()

    @property
    def is_interval(self) -> bool:
        """Whether it is an interval, whose values Hydra cannot list."""
        return self.as_read.is_interval_sweep()

    @property
    def value_text(self) -> str:
        return self.text.partition("=")[2].strip()

    @property
    def value_texts(self) -> list[str]:
        """Its values, as you would type them one by one. Raises HydraException if Hydra cannot list
        them."""
        return list(self.as_read.sweep_string_iterator()) if self.is_sweep else [self.value_text]

    @property
    def value(self) -> Any:
        """Its value as Hydra reads it, in plain data, unless it is a sweep."""
        return self.as_read.value()


def parsed(text: str, folders: Folders | None = None) -> TypedOverride | None:
    """One override with the key that it spells; None if Hydra cannot read it. ``folders`` has the
    options for ``glob()``."""
    parser = OverridesParser.create()
    try:
        override = parser.parse_overrides([in_ascii(text)])[0]
    except (HydraException, ValueError, RecursionError):  # ValueError: thousands of digits, too
        return None
    override.config_loader = folders and _Options(folders)  # type: ignore[assignment]
    return TypedOverride(text, override.key_or_group, override)


@dataclass(frozen=True)
class _Options:
    """Gives Hydra the names that ``glob()`` chooses from."""

    folders: Folders

    def get_group_options(self, group: str, results_filter: Any = None) -> list[str]:
        return self.folders.options(group)


def in_ascii(text: str) -> str:
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
