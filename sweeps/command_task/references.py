"""What the texts of a definition refer to: placeholders that stand for nothing, and keys for which
no placeholder stands."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sweeps.command_task.definition import Definition
from sweeps.command_task.template import KEYS, OUT, RESUME, TRIAL_NAMES, placeholders
from sweeps.problems import Problem, nearest
from tracking.written.source_kinds import REPORT_FILE

ENV = "env."
WITHOUT_OUT = ("report", REPORT_FILE, "mlflow", "stdout")
"""Sources of metrics that a command writes without knowing its folder."""
TEXTS = ("command", "steps", "data", "env")
"""The keys whose texts may hold placeholders."""


@dataclass(frozen=True)
class References:
    """The references of one definition.

    ``content`` is the file's: a key whose value was refused is known, and so are the placeholders
    in it. What only follows from another fault is no problem of its own.
    """

    definition: Definition
    content: Mapping[str, Any]

    def problems(self) -> Iterator[Problem]:
        yield from self._unknown_placeholders()
        yield from self._unused_keys()
        if RESUME in self._used and "checkpoint" not in self.content:
            fault = "is missing, but the command takes {resume}"
            allowed = "add checkpoint: a pattern below {out}, such as 'checkpoint-*'"
            place = self.definition.place("command")
            yield Problem("checkpoint", fault, allowed, place=place)
        yield from self._unknown_observed()
        if self.definition.words and not self.definition.takes_out:
            yield from self._unread_files()

    def _unknown_placeholders(self) -> Iterator[Problem]:
        for key, names in self._names_by_key().items():
            for name in dict.fromkeys(names):
                if self._is_unknown(name):
                    yield self._unknown_placeholder(key, name)

    def _unknown_placeholder(self, key: str, name: str) -> Problem:
        fault = f"holds {{{name}}}, which stands for nothing"
        allowed = f"known are {', '.join(f'{{{known_name}}}' for known_name in self._known)}"
        similar = self._intended(name)
        suggestion = similar and f"{{{similar}}}"
        return Problem(key, fault, allowed, suggestion, self.definition.place(key))

    def _unused_keys(self) -> Iterator[Problem]:
        """Keys of ``args`` without a placeholder. The name that a misspelled one means is used."""
        if not self.definition.words:
            return
        used = set(self._used)
        used |= {str(self._intended(name)) for name in used if self._is_unknown(name)}
        for name in self.definition.args:
            key = f"{KEYS}{name}"
            if key not in used:
                allowed = f"write {{{key}}} into the command, or remove the key"
                similar = nearest(name, used)
                place = self.definition.place(key)
                yield Problem(key, "is used by no placeholder", allowed, similar, place)

    def _unknown_observed(self) -> Iterator[Problem]:
        """Entries of ``observes`` that name neither a key nor a variable."""
        known = [*_names(self.content, "args"), *self._variables]
        for name in self.definition.observes:
            group = "env" if name.startswith(ENV) else "args"
            if name.removeprefix(KEYS) not in known and _is_readable(self.content, group):
                allowed = f"must name keys of args or env: {', '.join(known)}"
                place = self.definition.place("observes")
                yield Problem("observes", f"names {name}", allowed, nearest(name, known), place)

    def _unread_files(self) -> Iterator[Problem]:
        """Metrics from files: without ``{out}``, the command writes them where no trial reads."""
        for written in self.definition.metrics:
            if written.source and written.source not in WITHOUT_OUT:
                key = f"metrics.{written.metric.name}.source"
                fault = f"is {written.source}, but the command has no {{{OUT}}}"
                allowed = f"write {{{OUT}}} where the command names its output folder"
                yield Problem(key, fault, allowed, place=self.definition.place(key))

    def _is_unknown(self, name: str) -> bool:
        is_key = name.startswith(KEYS)
        if is_key and not _is_readable(self.content, "args"):
            return False
        return name not in self._known

    def _intended(self, name: str) -> str | None:
        """The known name that is most like a misspelled one."""
        return nearest(name, self._known) or nearest(f"{KEYS}{name}", self._known)

    @property
    def _known(self) -> list[str]:
        keys = [f"{KEYS}{name}" for name in _names(self.content, "args")]
        return [*keys, *TRIAL_NAMES]

    @property
    def _variables(self) -> list[str]:
        return [f"{ENV}{name}" for name in _names(self.content, "env")]

    @property
    def _used(self) -> list[str]:
        return [name for names in self._names_by_key().values() for name in names]

    def _names_by_key(self) -> dict[str, list[str]]:
        """The placeholders in the value of each key, and of each variable."""
        names: dict[str, list[str]] = {}
        for key in TEXTS:
            value = self.content.get(key)
            if key == "env" and isinstance(value, dict):
                for name, text in value.items():
                    names[f"{ENV}{name}"] = list(_placeholders(text))
            else:
                names[key] = list(_placeholders(value))
        return names


def _placeholders(value: Any) -> Iterator[str]:
    """Those in a text or in texts. YAML reads one without quotes as a group: ``{seed: null}``."""
    if isinstance(value, str):
        yield from placeholders(value)
    elif isinstance(value, list):
        for item in value:
            yield from _placeholders(item)
    elif isinstance(value, dict):
        for name in value:
            yield from placeholders(f"{{{name}}}")


def _names(content: Mapping[str, Any], group: str) -> list[str]:
    """The names in a group of keys, whether their values are refused or not."""
    value = content.get(group)
    return list(map(str, value)) if isinstance(value, dict) else []


def _is_readable(content: Mapping[str, Any], group: str) -> bool:
    """Whether the group is one, so that its names are known."""
    value = content.get(group)
    return value is None or isinstance(value, dict)
