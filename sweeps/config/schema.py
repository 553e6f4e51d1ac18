"""A task's configuration: its keys and their roles, the trial key, and the task's dataclass from
plain data."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import cache, cached_property
from typing import Any

from sweeps.fields import (
    Divided,
    Fingerprinted,
    Observes,
    OtherNames,
    Role,
    Scores,
    Seed,
    Symbol,
    field_types,
    fields_with,
    neutral_values,
    parse,
    settled,
)
from sweeps.problems import RefusedError
from sweeps.task import Task
from sweeps.trees import Tree, Values, dotted, nested
from tracking.card import Card
from tracking.words import LONGEST_VALUE, cell_text

PLATFORM = ("row", "scale", "cluster", "sweep", "tracking", "paths")
"""The groups of keys that every task has."""
FIXED = ("scale", "cluster", "tracking", "sweep")
"""Those whose option is the same for all rows."""


class Schema:
    """The keys of a task's configuration, with their groups and roles."""

    def __init__(self, task: Task[Any]) -> None:
        self.task = task

    @staticmethod
    @cache
    def of(task: Task[Any]) -> "Schema":
        return Schema(task)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self.task.schema))

    @cached_property
    def symbols(self) -> dict[str, str]:
        """The symbol of each key that has one, in the order of the schema."""
        return {key: symbol.text for key, symbol in self._keys_with(Symbol).items()}

    @cached_property
    def divided(self) -> dict[str, Divided]:
        """How a scale divides each key that it divides."""
        return self._keys_with(Divided)

    @cached_property
    def scores(self) -> frozenset[str]:
        """The keys that only change how a trained model is scored."""
        return frozenset(self._keys_with(Scores))

    @cached_property
    def scoring_groups(self) -> frozenset[str]:
        """The groups whose keys all only change how a trained model is scored."""
        training = {key.partition(".")[0] for key in self.short_names if key not in self.scores}
        return frozenset(self.groups) - training

    @cached_property
    def observes(self) -> frozenset[str]:
        """The keys that only change how training is watched."""
        return frozenset(self._keys_with(Observes))

    @cached_property
    def other_names(self) -> dict[str, OtherNames]:
        """What other programs call the keys."""
        return self._keys_with(OtherNames)

    @cached_property
    def fingerprinted(self) -> dict[str, Fingerprinted]:
        """The keys that a trial's key has only through the fingerprint of the data."""
        return self._keys_with(Fingerprinted)

    @cached_property
    def seed(self) -> str | None:
        """The task's key for the seed; None if it has none."""
        return next(iter(self._keys_with(Seed)), None)

    @cached_property
    def neutral(self) -> Values:
        """The value that each later-added key had before it was added."""
        hints = field_types(self.task.schema)
        return dotted({group: neutral_values(hints[group]) for group in self.groups})

    @cached_property
    def short_names(self) -> dict[str, str]:
        """The name of each key in tables: its last component, with its group where two groups have
        it."""
        hints = field_types(self.task.schema)
        pairs = [(group, name) for group in self.groups for name in field_types(hints[group])]
        counts = Counter(name for _, name in pairs)
        short_names = {}
        for group, name in pairs:
            key = f"{group}.{name}"
            short_names[key] = key if counts[name] > 1 else name
        return short_names

    def short(self, key: str) -> str:
        return self.short_names.get(key, key)

    def described(self, values: Mapping[str, Any]) -> str:
        """Values by short name as text, such as "h 4, d_k = d_v = 16"."""
        if self.task.words is not None:
            shortened = {
                name: cell_text(value) if len(str(value)) > LONGEST_VALUE else value
                for name, value in values.items()
            }
            return self.task.words(shortened)
        symbols = {self.short(key): symbol for key, symbol in self.symbols.items()}
        changes = [
            f"{symbols.get(name, name)} {cell_text(value)}" for name, value in values.items()
        ]
        return ", ".join(changes)

    def config(self, tree: Tree) -> Any:
        """The task's dataclass from plain data. Raises RefusedError.

        Keys that no study records may be missing: the seed is 1 then, and the others are None.
        """
        groups = {group: dict(tree.get(group, {})) for group in self.groups}
        for key in self.short_names:
            if not self.is_recorded(key):
                group, _, name = key.partition(".")
                groups[group].setdefault(name, 1 if key == self.seed else None)
        config, problems = parse(self.task.schema, groups)
        if config is None:
            raise RefusedError(problems)
        return config

    def values(self, config: Any) -> Values:
        """Every value by its dotted key."""
        return dotted(asdict(config))

    def seeded(self, config: Any, seed: int) -> Any:
        """The configuration with this seed, if the schema has a key for it."""
        if self.seed is None:
            return config
        group, name = self.seed.split(".")
        seeded_group = replace(getattr(config, group), **{name: seed})
        return replace(config, **{group: seeded_group})

    def scoring(self, config: Any) -> Values:
        """The settings that only score, as result.json keeps them: without neutral ones.

        Each has its dotted key, or the name that the task's card has for it.
        """
        names = self.task.card.scoring if self.task.card else {}
        values = self._settled(config)
        return {names.get(key, key): value for key, value in values.items() if key in self.scores}

    def declared_data(self, config: Any) -> Values:
        """The values that identify the data: keys with that role, or all keys if none has it."""
        values = self.values(config)
        return {key: values[key] for key in self.fingerprinted} or values

    def trial_key(
        self, config: Any, seed: int, fingerprint: str, version: int | None = None
    ) -> str:
        """SHA-256 (64 hex digits) of exactly what determines the trained weights.

        Keys that were added later don't count while they are neutral.
        """
        values = self._settled(config)
        training = {
            key: value
            for key, value in values.items()
            if self._trains(key) and key not in self.fingerprinted
        }
        content = {
            "task": [self.task.name, version or self.task.version],
            "config": nested(training),
            "seed": seed,
            "fingerprint": fingerprint,
        }
        return _sha256(content)

    def scoring_key(self, weights: str, config: Any) -> str:
        """The key of a trial that only scores the weights of the trial with the key ``weights``."""
        return _sha256({"weights": weights, "scoring": self.scoring(config)})

    def _settled(self, config: Any) -> Values:
        """Every value that is not neutral, by its dotted key."""
        return dotted({group: settled(getattr(config, group)) for group in self.groups})

    def is_recorded(self, key: str) -> bool:
        """Whether a study records the key: all except the seed, and where data is fetched from."""
        role = self.fingerprinted.get(key)
        return key != self.seed and (role is None or role.lasting)

    def decides_weights(self, key: str) -> bool:
        """Whether a study cannot change the key: all except the seed, places, and what only scores
        or observes."""
        role = self.fingerprinted.get(key)
        is_place = role is not None and role.place
        return self._trains(key) and not is_place

    def _trains(self, key: str) -> bool:
        return key != self.seed and key not in self.scores and key not in self.observes

    def _keys_with(self, role: type[Role]) -> dict[str, Role]:
        return fields_with(self.task.schema, role)


def _sha256(content: Mapping[str, Any]) -> str:
    """SHA-256 of plain data as JSON, in 64 hex digits."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def task_card(task: Task[Any]) -> Card:
    """What ``study.json`` holds about a task: its card, or one that follows from its schema."""
    if task.card is not None:
        return task.card
    schema = Schema.of(task)
    symbols = {schema.short(key): symbol for key, symbol in schema.symbols.items()}
    scoring = {key: key for key in sorted(schema.scores)}
    return Card(
        task.name, task.version, task.metrics, symbols, scoring=scoring, groups=schema.groups
    )


def one_line(text: str) -> str:
    """The text with single spaces, without letters that cannot be printed."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())
