"""The words of a command, with placeholders such as ``{args.lr}``, ``{seed}`` and ``{out}``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeps.problems import refusal

PLACEHOLDER = re.compile(r"\{\{(?P<literal>[\w.]+)\}\}|\{(?P<name>[A-Za-z_][\w.]*)\}")
"""``{{name}}`` stands for ``{name}`` itself. Other braces, as those of JSON, are plain text."""
KEYS = "args."
OUT = "out"
RESUME = "resume"
TRIAL_NAMES = ("seed", OUT, RESUME, "rank", "world")
"""What a command may take from its trial, besides its keys."""
Value = str | list[str] | None
"""Of a placeholder. With None, its argument is left out."""


def placeholders(text: str) -> list[str]:
    """The names of the placeholders in the text."""
    names = [match["name"] for match in PLACEHOLDER.finditer(text)]
    return [name for name in names if name]


def filled(text: str, values: Mapping[str, Value]) -> str:
    """The text with its values. A list is written as ``[1,2]``."""

    def replacement(match: re.Match[str]) -> str:
        if match["literal"]:
            return f"{{{match['literal']}}}"
        value = values[match["name"]]
        return f"[{','.join(value)}]" if isinstance(value, list) else str(value or "")

    return PLACEHOLDER.sub(replacement, text)


@dataclass(frozen=True)
class Template:
    """A command's words. ``toggles`` are the placeholders whose values are flags themselves."""

    words: tuple[str, ...]
    toggles: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """All placeholders."""
        return [name for word in self.words for name in placeholders(word)]

    def arguments(self, values: Mapping[str, Value]) -> list[str]:
        """The words with their values.

        A word whose value is None is left out, and so is the flag before it. A word that is only a
        placeholder becomes one word per item of a list.
        """
        arguments: list[str] = []
        for number, word in enumerate(self.words):
            names = placeholders(word)
            lone_value = values[names[0]] if self._is_lone(word) else ""
            if any(values[name] is None for name in names):
                if self._takes_flag(number):
                    arguments.pop()
            elif isinstance(lone_value, list):
                arguments += lone_value
            else:
                arguments.append(filled(word, values))
        return arguments

    def _is_lone(self, word: str) -> bool:
        """Whether the word is one placeholder and nothing else."""
        match = PLACEHOLDER.fullmatch(word)
        return match is not None and match["name"] is not None

    def _takes_flag(self, number: int) -> bool:
        """Whether the word before this one is the flag whose value it holds."""
        word = self.words[number]
        if number == 0 or not self._is_lone(word) or placeholders(word)[0] in self.toggles:
            return False
        return is_flag(self.words[number - 1])


def is_flag(word: str) -> bool:
    """Whether it is a flag that takes the next word as its value, such as ``--lr`` or ``-l``."""
    return word.startswith("-") and len(word.strip("-")) > 0 and not re.search(r"[={]", word)


def typed_command(typed: Sequence[str]) -> list[str]:
    """The words of a command behind ``--``; one word may be the whole line. Raises RefusedError for
    a command that is empty, or that has a quote without an end."""
    try:
        words = list(split(typed[0])) if len(typed) == 1 else list(typed)
    except ValueError:
        fault = f"has a quote without an end: {typed[0]}"
        raise refusal("COMMAND", fault, "close it, or type the command without quotes") from None
    if not words:
        allowed = "type it after --, such as -- python train.py --lr 0.1"
        raise refusal("COMMAND", "is missing", allowed)
    return words


def split(text: str) -> Sequence[str]:
    """The words of a command in one line, as a shell splits them. Nothing else of a shell works.

    Raises ValueError for a quote that isn't closed.
    """
    import shlex

    return shlex.split(text)
