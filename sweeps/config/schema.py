"""A task's configuration: its keys and their roles, its trial key, and plain data into the task's dataclasses."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import cache, cached_property
from typing import Any

from sweeps.schema import (
    Divided,
    Fingerprinted,
    Observes,
    RefusedError,
    Role,
    Scores,
    Seed,
    Symbol,
    Values,
    dotted,
    field_types,
    fields_with,
    nested,
    neutral_values,
    parse,
    settled,
)
from sweeps.task import Task
from tracking.card import Card
from tracking.words import LONGEST_VALUE, cell_text

PLATFORM = ("row", "scale", "cluster", "sweep", "tracking", "paths")
"""The groups of keys that every task has."""


class Schema:
    """The groups of keys that a task's configuration has."""

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
        return {key: symbol.text for key, symbol in self._with(Symbol).items()}

    @cached_property
    def divided(self) -> dict[str, Divided]:
        """How a scale divides keys."""
        return self._with(Divided)

    @cached_property
    def scores(self) -> frozenset[str]:
        """The keys that only change how a trained model is scored."""
        return frozenset(self._with(Scores))

    @cached_property
    def scoring_groups(self) -> frozenset[str]:
        """The groups of which every key only changes how a trained model is scored."""
        deciding = {key.partition(".")[0] for key in self.short_names if key not in self.scores}
        return frozenset(self.groups) - deciding

    @cached_property
    def observes(self) -> frozenset[str]:
        """The keys that only change how training is watched."""
        return frozenset(self._with(Observes))

    @cached_property
    def fingerprinted(self) -> dict[str, Fingerprinted]:
        """The keys that count only through the fingerprint of the data."""
        return self._with(Fingerprinted)

    @cached_property
    def seed(self) -> str | None:
        """The key that holds the seed, if the task has one of its own."""
        return next(iter(self._with(Seed)), None)

    @cached_property
    def neutral(self) -> Values:
        """What a configuration means that is older than a key."""
        hints = field_types(self.task.schema)
        return dotted({group: neutral_values(hints[group]) for group in self.groups})

    @cached_property
    def short_names(self) -> dict[str, str]:
        """The name of each key in tables: its last component, with its group where two groups have it."""
        keys = [
            f"{group}.{name}" for group in self.groups for name in field_types(field_types(self.task.schema)[group])
        ]
        names = [key.partition(".")[2] for key in keys]
        return {key: key if names.count(name) > 1 else name for key, name in zip(keys, names, strict=True)}

    def short(self, key: str) -> str:
        return self.short_names.get(key, key)

    def described(self, values: Mapping[str, Any]) -> str:
        """Values by short name as text, such as "h 4, d_k = d_v = 16"."""
        if self.task.words is not None:
            long = {name: value for name, value in values.items() if len(str(value)) > LONGEST_VALUE}
            return self.task.words({**values, **{name: cell_text(value) for name, value in long.items()}})
        symbols = {self.short(key): symbol for key, symbol in self.symbols.items()}
        return ", ".join(f"{symbols.get(name, name)} {cell_text(value)}" for name, value in values.items())

    def config(self, tree: dict[str, Any]) -> Any:
        """The task's dataclass from plain data, in which what no study records may be missing. Raises RefusedError."""
        groups = {group: dict(tree.get(group, {})) for group in self.groups}
        for group, _, name in (key.partition(".") for key in self.short_names if not self.is_recorded(key)):
            groups[group].setdefault(name, 1 if f"{group}.{name}" == self.seed else None)
        found, problems = parse(self.task.schema, groups)
        if found is None:
            raise RefusedError(problems)
        return found

    def values(self, config: Any) -> Values:
        """Every value by its dotted key."""
        return dotted(asdict(config))

    def seeded(self, config: Any, seed: int) -> Any:
        """The configuration with this seed, where the schema has a key for it."""
        if self.seed is None:
            return config
        group, name = self.seed.split(".")
        return replace(config, **{group: replace(getattr(config, group), **{name: seed})})

    def scoring(self, config: Any) -> Values:
        """The settings that only score, as result.json keeps them: without those that are neutral.

        By dotted key, or by the name that the task's card has for it.
        """
        names = self.task.card.scoring if self.task.card else {}
        return {names.get(key, key): value for key, value in self._settled(config).items() if key in self.scores}

    def declared_data(self, config: Any) -> Values:
        """The values that identify the data: those with that role, or all if none has it."""
        values = self.values(config)
        return {key: values[key] for key in self.fingerprinted} or values

    def trial_key(self, config: Any, seed: int, fingerprint: str, version: int | None = None) -> str:
        """SHA-256 (64 hex digits) of exactly what determines the trained weights.

        Keys added later are left out while they are neutral.
        """
        deciding = {key: value for key, value in self._settled(config).items() if self._decides(key)}
        decides = {
            "task": [self.task.name, version or self.task.version],
            "config": nested(deciding),
            "seed": seed,
            "fingerprint": fingerprint,
        }
        text = json.dumps(decides, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def scoring_key(self, weights: str, config: Any) -> str:
        """The key of a trial that only scores: of the weights with the key ``weights``, with these settings."""
        text = json.dumps(
            {"weights": weights, "scoring": self.scoring(config)},
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
        )
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def _settled(self, config: Any) -> Values:
        """Every value that is not neutral, by its dotted key."""
        return dotted({group: settled(getattr(config, group)) for group in self.groups})

    def is_recorded(self, key: str) -> bool:
        """Whether a study records the key: all but the seed, and where data is fetched from."""
        role = self.fingerprinted.get(key)
        return key != self.seed and (role is None or role.lasting)

    def decides_weights(self, key: str) -> bool:
        """Whether a study cannot change the key: all but the seed, places, and what only scores or observes."""
        places = [name for name, role in self.fingerprinted.items() if role.place]
        return key != self.seed and not any(key in keys for keys in (self.scores, self.observes, places))

    def _decides(self, key: str) -> bool:
        return key != self.seed and not any(key in keys for keys in (self.scores, self.observes, self.fingerprinted))

    def _with(self, role: type[Role]) -> dict[str, Role]:
        return fields_with(self.task.schema, role)


def task_card(task: Task[Any]) -> Card:
    """What ``study.json`` says of a task: its own card, or the one that follows from its schema."""
    if task.card is not None:
        return task.card
    schema = Schema.of(task)
    symbols = {schema.short(key): symbol for key, symbol in schema.symbols.items()}
    scoring = {key: key for key in sorted(schema.scores)}
    return Card(task.name, task.version, task.metrics, symbols, scoring=scoring, groups=schema.groups)


def one_line(text: str) -> str:
    """The text with single blanks, without letters that cannot be printed."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
