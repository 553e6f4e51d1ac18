"""The key that a mistyped name most likely means."""

import re
from collections.abc import Collection, Iterable
from functools import cache

from sweeps.planning.meant import NOTES, OTHER_NAMES
from sweeps.schema import keys, nearest

NOT_FOR_ONE_ROW = ("sweep.rows", "sweep.seeds")


@cache
def known_keys(tree: type) -> tuple[str, ...]:
    """Every key of a task's settings; ``tree`` is the dataclass that has their form."""
    return tuple(keys(tree))


def other_name(key: str, known: Collection[str]) -> str | None:
    """The known key that has this other name; the whole name counts before its last component."""
    found = (_others().get(_plain(name), "") for name in (key, _last(key)))
    return next((name for name in found if name in known), None)


def unknown_key(tree: type, key: str, groups: Iterable[str] = (), one_row: bool = False) -> tuple[str | None, str]:
    """The key or group that an unknown key most likely means, and what is allowed in its place.

    ``one_row`` is for verbs that take one row and one seed.
    """
    known = [name for name in known_keys(tree) if not (one_row and name in NOT_FOR_ONE_ROW)]
    inside = any(name.startswith(f"{key}.") for name in known)
    above = (name for name in known if key.startswith(f"{name}."))
    named = next(above, None) or other_name(key, [*known, *groups])
    meant = None if inside else named or _similar(key, known, groups)
    branch = key if inside else (meant if meant and "." in meant else key).rpartition(".")[0]
    siblings = [name.removeprefix(f"{branch}.") for name in known if name.startswith(f"{branch}.")]
    usual = f"keys under {branch} are {', '.join(siblings)}" if siblings else "`ablate config` shows every key"
    return meant, NOTES.get(named or "", usual)


def _similar(key: str, known: list[str], groups: Iterable[str]) -> str | None:
    """A key with this last component, or a key or group that looks like the typed one, or whose last component does."""
    usual = sorted(known, key=lambda name: name.startswith(("row.", "scale.")))
    lasts = {_last(name): name for name in reversed(usual)}
    return lasts.get(_last(key)) or nearest(key, [*groups, *known]) or lasts.get(nearest(_last(key), lasts) or "")


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _plain(name: str) -> str:
    """A name in lower case, without separators."""
    return re.sub(r"[\s_-]+", "", name.casefold())


@cache
def _others() -> dict[str, str]:
    return {_plain(name): key for key, names in OTHER_NAMES.items() for name in names.split()}
