"""The key, option or override that a mistyped name most likely means."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args, get_origin

from sweeps.planning.meant import AMBIGUOUS, GROUPS, LETTERS, OPTIONS, OTHER_VALUE, ROW_WORDS, ROWS, SAME_VALUE, SEEDS
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
def known_keys(tree: type) -> tuple[str, ...]:
    """Every key of a task's settings; ``tree`` is the dataclass that has their form."""
    return tuple(keys(tree))


def key_meant(tree: type, key: str, value: str, options: dict[str, list[str]], one_row: bool) -> Suggestion | None:
    """What the override ``key=value`` means, where ``key`` is neither a key nor a group.

    ``options`` are those of each group. ``one_row`` is for verbs that take one row and one seed.
    """
    return _Meaning(tree, options, one_row).of(key.replace("/", "."), value)


def other_name(tree: type, key: str) -> str | None:
    """The key that has this other name, by the tables alone."""
    found = _Meaning(tree, {}, one_row=False).by_table(key, "")
    return found.key if found else None


def unknown_key(
    tree: type, key: str, value: str, options: dict[str, list[str]], one_row: bool = False
) -> tuple[Suggestion | None, str]:
    """What an unknown key means, and what is allowed in its place."""
    known, meant = known_keys(tree), key_meant(tree, key, value, options, one_row)
    branch = (meant.key if meant and not meant.group else key).rsplit(".", 1)[0]
    branch = key if any(name.startswith(f"{key}.") for name in known) else branch
    siblings = [name.removeprefix(f"{branch}.") for name in known if name.startswith(f"{branch}.")]
    usual = f"keys under {branch} are {', '.join(siblings)}" if siblings else "`ablate config` shows every key"
    return meant, (meant and meant.note) or usual


class _Meaning:
    """The keys and options of a task, and what is meant by names that are none of them."""

    def __init__(self, tree: type, options: dict[str, list[str]], one_row: bool) -> None:
        self.tree, self.known, self.options, self.one_row = tree, known_keys(tree), options, one_row

    def of(self, key: str, value: str) -> Suggestion | None:
        found = self._same_key(key) or self._selection(key, value)
        if found or any(known.startswith(f"{key}.") for known in self.known):
            return found
        ways = (self.by_table, self._by_last_component, self._group, self._similar)
        return next((found for way in ways if (found := way(key, value))), None)

    def _same_key(self, key: str) -> Suggestion | None:
        """A key of the same group that differs in case, separators, a plural or a further component."""
        singular = plain(key).rstrip("s")
        found = [name for name in self.known if plain(name).rstrip("s") == singular or key.startswith(f"{name}.")]
        return Suggestion(found[0], found[0]) if found else None

    def _selection(self, key: str, value: str) -> Suggestion | None:
        """Rows and seeds, which a sweep lists and other verbs take singly."""
        last, bare, rows = _last(key), value.strip("[](){} ,"), self.options["row"]
        if last in _words(SEEDS):
            single = self.one_row and "train.seed" in self.known
            return Suggestion("train.seed", f"train.seed={bare}") if single else _list("sweep.seeds", bare)
        if bare == "all" and last in _words(ROWS):
            return Suggestion("sweep.rows", "sweep.rows=all")
        if last not in _words(ROWS):
            return None
        names = [option_meant("row", name.strip(), rows) or name.strip() for name in bare.split(",") if name.strip()]
        if last in _words("model config") and names and names[0] not in rows:
            return None
        return (
            Suggestion("row", f"row={','.join(names)}", group=True)
            if self.one_row
            else _list("sweep.rows", ",".join(names))
        )

    def by_table(self, key: str, value: str) -> Suggestion | None:
        """Another name for one of our keys; the whole name counts before its last component."""
        for name in (plain(key), _last(key)):
            other, same = _other_values().get(name), _same_values().get(name)
            if other and other[0] in self.known:
                return Suggestion(other[0], other[0], other[1], same_value=False)
            if same in self.known:
                override = same if "." in key and _last(same) == name else self._override(same, value)
                return Suggestion(same, override, AMBIGUOUS.get(name))
        return None

    def _by_last_component(self, key: str, value: str) -> Suggestion | None:
        found = [known for known in self.known if _last(known) == _last(key)]
        found = [known for known in found if not known.startswith("scale.")] or found  # what is divided comes first
        if len(found) != 1:
            return None
        return Suggestion(found[0], found[0] if "." in key else self._override(found[0], value))

    def _group(self, key: str, value: str) -> Suggestion | None:
        """A group, if the value is one of its options, or if nothing like the value exists anywhere."""
        if "." in key:
            return None
        named = (group for group, others in GROUPS.items() if plain(key) in _words(others) and group in self.options)
        name = next(named, None)
        group = name or nearest(key, self.options)
        option = option_meant(group, value, self.options[group]) if group else None
        if group is None or option is None:
            return None
        return Suggestion(group, f"{group}={option}" if name or option != value else group, group=True)

    def _similar(self, key: str, value: str) -> Suggestion | None:
        """A key that looks like the typed one, or whose last component does if no group was typed."""
        if "." in key:
            found = nearest(key, self.known)
            return Suggestion(found, found) if found else None
        lasts = {known.rsplit(".", 1)[-1]: known for known in reversed(self.known)}
        last = nearest(key, lasts)
        return Suggestion(lasts[last], self._override(lasts[last], value)) if last else None

    def _override(self, key: str, value: str) -> str:
        """A list takes one item in brackets."""
        return f"{key}=[{value}]" if takes_list(self.tree, key) and not value.startswith("[") else f"{key}={value}"


def _list(key: str, items: str) -> Suggestion:
    return Suggestion(key, f"{key}=[{items}]")


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


def takes_list(tree: type, key: str) -> bool:
    kind = kind_of(tree, key)
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
