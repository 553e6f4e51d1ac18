"""The key, option or override that somebody meant who typed another name."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args, get_origin

from sweeps.planning.meant import AMBIGUOUS, GROUPS, LETTERS, OPTIONS, OTHER_VALUE, ROW_WORDS, ROWS, SAME_VALUE, SEEDS
from sweeps.planning.settings import Settings
from transformer.schema import keys, kind_of, nearest


@dataclass(frozen=True)
class Suggestion:
    """A key, the override to type instead, and why its value may differ. ``group`` says that the key is a group."""

    key: str
    override: str
    note: str | None = None
    same_value: bool = True
    group: bool = False


def plain(name: str) -> str:
    """A name in lower case, without separators, and with Greek letters in full."""
    return re.sub(r"[\s_-]+", "", name.casefold().translate(LETTERS))


@cache
def known_keys() -> tuple[str, ...]:
    return tuple(keys(Settings))


def key_meant(key: str, value: str, options: dict[str, list[str]], one_row: bool) -> Suggestion | None:
    """What the override ``key=value`` means, where ``key`` is neither a key nor a group.

    ``options`` are those of each group. ``one_row`` is for verbs that take one row and one seed.
    """
    key = key.replace("/", ".")
    found = _same_key(key) or _selection(key, value, options["row"], one_row)
    if found or any(known.startswith(f"{key}.") for known in known_keys()):
        return found
    return (
        _by_table(key, value) or _by_last_component(key, value) or _group(key, value, options) or _similar(key, value)
    )


def unknown_key(
    key: str, value: str, options: dict[str, list[str]], one_row: bool = False
) -> tuple[Suggestion | None, str]:
    """What an unknown key means, and what is allowed in its place."""
    meant = key_meant(key, value, options, one_row)
    branch = (meant.key if meant and not meant.group else key).rsplit(".", 1)[0]
    branch = key if any(known.startswith(f"{key}.") for known in known_keys()) else branch
    siblings = [name.removeprefix(f"{branch}.") for name in known_keys() if name.startswith(f"{branch}.")]
    usual = f"keys under {branch} are {', '.join(siblings)}" if siblings else "`ablate config` shows every key"
    return meant, (meant and meant.note) or usual


def _same_key(key: str) -> Suggestion | None:
    """A key of the same group that differs in case, separators, a plural or a further component."""
    singular = plain(key).rstrip("s")
    found = [known for known in known_keys() if plain(known).rstrip("s") == singular or key.startswith(f"{known}.")]
    return Suggestion(found[0], found[0]) if found else None


def _selection(key: str, value: str, rows: list[str], one_row: bool) -> Suggestion | None:
    """Rows and seeds, which a sweep lists and other verbs take singly."""
    last, bare = _last(key), value.strip("[](){} ,")
    if last in _words(SEEDS):
        return Suggestion("train.seed", f"train.seed={bare}") if one_row else _list("sweep.seeds", bare)
    if bare == "all" and last in _words(ROWS):
        return Suggestion("sweep.rows", "sweep.rows=all")
    if last not in _words(ROWS):
        return None
    names = [option_meant("row", name.strip(), rows) or name.strip() for name in bare.split(",") if name.strip()]
    if last in _words("model config") and names and names[0] not in rows:
        return None
    return Suggestion("row", f"row={','.join(names)}", group=True) if one_row else _list("sweep.rows", ",".join(names))


def _list(key: str, items: str) -> Suggestion:
    return Suggestion(key, f"{key}=[{items}]")


def _by_table(key: str, value: str) -> Suggestion | None:
    """Another name for one of our keys; the whole name counts before its last component."""
    for name in (plain(key), _last(key)):
        if name in _other_values():
            found, note = _other_values()[name]
            return Suggestion(found, found, note, same_value=False)
        if name in _same_values():
            found = _same_values()[name]
            override = found if "." in key and _last(found) == name else _override(found, value)
            return Suggestion(found, override, AMBIGUOUS.get(name))
    return None


def other_name(key: str) -> str | None:
    """The key that has this other name, by the tables alone."""
    found = _by_table(key, "")
    return found.key if found else None


def _by_last_component(key: str, value: str) -> Suggestion | None:
    found = [known for known in known_keys() if _last(known) == _last(key)]
    if len(found) != 1:
        return None
    return Suggestion(found[0], found[0] if "." in key else _override(found[0], value))


def _group(key: str, value: str, options: dict[str, list[str]]) -> Suggestion | None:
    """A group, if the value is one of its options, or if nothing like the value exists anywhere."""
    if "." in key:
        return None
    name = next((group for group, others in GROUPS.items() if plain(key) in _words(others)), None)
    group = name or nearest(key, options)
    option = option_meant(group, value, options[group]) if group else None
    if group is None or option is None:
        return None
    return Suggestion(group, f"{group}={option}" if name or option != value else group, group=True)


def _similar(key: str, value: str) -> Suggestion | None:
    """A key that looks like the typed one, or whose last component does if no group was typed."""
    if "." in key:
        found = nearest(key, known_keys())
        return Suggestion(found, found) if found else None
    lasts = {known.rsplit(".", 1)[-1]: known for known in reversed(known_keys())}
    last = nearest(key, lasts)
    return Suggestion(lasts[last], _override(lasts[last], value)) if last else None


def option_meant(group: str, name: str, options: Iterable[str], similar: bool = True) -> str | None:
    """The option of a group that ``name`` means, without regard to case, separators and file endings.

    ``similar`` allows names that only look alike.
    """
    options, bare = list(options), _bare_option(name)
    compact = {_compact(option): option for option in reversed(options)}
    wanted = _ours(bare) if group == "row" else _compact(bare)
    if wanted in compact:
        return compact[wanted]
    inside = [option for text, option in compact.items() if len(wanted) > 1 and text.endswith(wanted)]
    if len(inside) == 1:
        return inside[0]
    near = nearest(wanted, compact) if similar else None
    return compact[near] if near else OPTIONS[wanted] if OPTIONS.get(wanted) in options else None


def _bare_option(name: str) -> str:
    """A row's name without folder, ending and seed: conf/row/big.yaml and big-s1 mean big."""
    stem = re.sub(r"\.ya?ml$", "", Path(name).name, flags=re.IGNORECASE)
    return re.sub(r"-s\d+$", "", stem)


def _compact(name: str) -> str:
    return re.sub(r"[\s_()=-]+", "", name.casefold().translate(LETTERS))


def _ours(name: str) -> str:
    """The compact name of a row in our words: "n_heads_4" as "heads4", and "dropout 0.2" as "dropout20"."""
    percent = r"0[.,]([0-9])$"
    compact = re.sub(percent, lambda found: f"{found[1]}0".replace("00", "0"), _compact(name))
    word = re.sub(r"\d+$", "", compact)
    return ROW_WORDS[word] + compact[len(word) :] if word in ROW_WORDS else compact


def _override(key: str, value: str) -> str:
    """A list takes one item in brackets."""
    return f"{key}=[{value}]" if takes_list(key) and not value.startswith("[") else f"{key}={value}"


def takes_list(key: str) -> bool:
    kind = kind_of(Settings, key)
    return list in (get_origin(kind), *map(get_origin, get_args(kind)))


def _last(key: str) -> str:
    return plain(key.rsplit(".", 1)[-1])


@cache
def _words(names: str) -> frozenset[str]:
    return frozenset(plain(name) for name in names.split())


@cache
def _same_values() -> dict[str, str]:
    return {plain(name): key for key, names in SAME_VALUE.items() for name in names.split()}


@cache
def _other_values() -> dict[str, tuple[str, str]]:
    return {plain(name): (key, note) for key, (names, note) in OTHER_VALUE.items() for name in names.split()}
