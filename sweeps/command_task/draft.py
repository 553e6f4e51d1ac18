"""The first definition of a command as it was typed: which of its words become keys."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from keyword import iskeyword
from pathlib import Path
from typing import Any

from sweeps.command_task.definition import BOOLEANS
from sweeps.command_task.programs import SCRIPTS
from sweeps.command_task.template import KEYS, PLACEHOLDER

SEEDS = ("seed", "randomseed", "rngseed", "manualseed", "globalseed")
FOLDERS = (
    *("out", "outdir", "output", "outputdir", "savedir", "logdir", "loggingdir", "rundir"),
    *("checkpointdir", "ckptdir", "workdir", "resultsdir", "expdir", "defaultrootdir"),
    *("hydrarundir", "outputdirectory"),
)
"""Flags that name the folder a script writes to."""
FILES = ("outputfile", "outfile", "savepath", "outputpath", "logfile", "modelpath", "savefile")
"""Flags that name a file it writes."""
RESUMES = ("resume", "resumefrom", "resumefromcheckpoint", "ckptpath", "loadfrom")
RANKS = ("rank", "localrank", "noderank")
STEPS = ("steps", "maxsteps", "numsteps", "nsteps", "totalsteps", "maxiters", "iterations", "iters")
"""Flags that hold the number of training steps."""
PAIR = re.compile(
    r"(?P<head>(?P<flag>--)?\+{0,2}(?P<name>[A-Za-z_][\w.\-/@]*)=)(?P<value>.*)", re.S
)
"""``--lr=0.1``, and ``optim.lr=0.1`` as Hydra has it."""
VARIABLE = re.compile(r"(?P<name>[A-Z_][A-Z0-9_]*)=(?P<value>.*)", re.S)
WHOLE = re.compile(r"-?(0|[1-9]\d*)")
DECIMAL = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?")
NEGATIVE = re.compile(r"-\.?\d")
STAYS = "stays as it is"


@dataclass(frozen=True)
class DraftedWord:
    """What became of typed words: the words of the template, and how the user is told.

    ``key`` and ``text`` are those of a new key of ``args``.
    """

    typed: str
    words: tuple[str, ...]
    becomes: str = STAYS
    key: str = ""
    text: str = ""

    @property
    def value(self) -> Any:
        return typed_value(self.text)


@dataclass(frozen=True)
class Draft:
    """A definition without metrics."""

    program: Sequence[str]
    drafted: Sequence[DraftedWord]
    env: Mapping[str, str] = field(default_factory=dict)
    data: Sequence[str] = ()
    steps: str = ""

    @property
    def keys(self) -> list[DraftedWord]:
        """The words that become keys."""
        return [drafted for drafted in self.drafted if drafted.key]


@dataclass(frozen=True)
class Flag:
    """A flag or setting with its value, as typed. ``head`` is what precedes the value in the same
    word, such as ``--lr=``."""

    typed: tuple[str, ...]
    name: str
    value: str
    head: str = ""

    def is_among(self, names: Sequence[str]) -> bool:
        """Whether the names have it, or its last part: ``trainer.seed`` is a seed."""
        last = self.name.rpartition(".")[2]
        return _plain(self.name) in names or _plain(last) in names

    def holding(self, placeholder: str) -> tuple[str, ...]:
        """Its words with a placeholder instead of the value."""
        word = f"{_literal(self.head)}{{{placeholder}}}"
        return (word,) if self.head else (self.typed[0], word)


Part = Flag | tuple[str, ...]
"""Words that belong together. Those of a tuple stay as they are."""


def draft(typed: Sequence[str], here: Path) -> Draft:
    """The definition of the typed command. Files are looked for in ``here``."""
    variables, words = _without_variables(typed)
    script = _end_of_launcher(words)
    drafted: list[DraftedWord] = []
    parts = list(_parts(words[script:]))
    counts = Counter(part.name for part in parts if isinstance(part, Flag))
    keys: set[str] = set()
    for part in parts:
        repeated = isinstance(part, Flag) and counts[part.name] > 1
        drafted_word = _stays(part) if repeated else _drafted(part, keys)
        keys.add(drafted_word.key)
        drafted.append(drafted_word)
    data = [word for word in drafted if word.key and _is_data(word.value, here)]
    steps = [word for word in drafted if _plain(word.key) in STEPS and type(word.value) is int]
    return Draft(
        list(map(_literal, words[:script])),
        drafted,
        variables,
        [f"{{{KEYS}{word.key}}}" for word in data],
        f"{{{KEYS}{steps[0].key}}}" if steps else "",
    )


def _without_variables(typed: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The variables before the command, as ``NAME=value python train.py``, and the command."""
    variables: dict[str, str] = {}
    words = list(typed)
    while words and (match := VARIABLE.fullmatch(words[0])):
        variables[match["name"]] = _literal(match["value"])
        del words[0]
    return variables, words


def _end_of_launcher(words: Sequence[str]) -> int:
    """How many words come before the script's own: the program, its flags, and the script."""
    end = min(1, len(words))
    for number, word in enumerate(words):
        if number and words[number - 1] == "-m":
            return number + 1
        if word.endswith(SCRIPTS) and not word.startswith("-"):
            return number + 1
    return end


def _parts(words: Sequence[str]) -> Iterator[Part]:
    """Flags with their value, and all other words: a flag with several values is one part."""
    number = 0
    while number < len(words):
        word = words[number]
        number += 1
        if match := PAIR.fullmatch(word):
            yield Flag((word,), match["name"], match["value"], match["head"])
            continue
        values = list(takewhile(_is_value, words[number:])) if word.startswith("-") else []
        number += len(values)
        if word.startswith("--") and len(values) == 1:
            yield Flag((word, *values), word[2:], values[0])
        else:
            yield (word, *values)


def _is_value(word: str) -> bool:
    """Whether it may be the value of the flag before it."""
    is_flag = word.startswith("-") and not NEGATIVE.match(word)
    return not is_flag and PAIR.fullmatch(word) is None


def _stays(part: Part) -> DraftedWord:
    typed = part.typed if isinstance(part, Flag) else part
    return DraftedWord(" ".join(typed), tuple(map(_literal, typed)))


def _drafted(part: Part, taken: Iterable[str]) -> DraftedWord:
    """What becomes of the flag: a placeholder of the trial, or a key. ``taken`` are the keys so
    far."""
    if not isinstance(part, Flag) or part.is_among((*RESUMES, *RANKS)):
        return _stays(part)
    typed = " ".join(part.typed)
    if part.is_among(FILES):
        return _file(part)
    for names, placeholder in ((SEEDS, "seed"), (FOLDERS, "out")):
        if part.is_among(names):
            return DraftedWord(typed, part.holding(placeholder), f"{{{placeholder}}}")
    key = re.sub(r"\W", "_", part.name)
    if key in taken or iskeyword(key) or key == "seed":
        return _stays(part)
    becomes = f"{KEYS}{key}, {KINDS[type(typed_value(part.value))]}"
    return DraftedWord(typed, part.holding(f"{KEYS}{key}"), becomes, key, part.value)


def _file(flag: Flag) -> DraftedWord:
    """A file that the script writes gets a place of its own per trial; one with an absolute path
    stays."""
    name = Path(flag.value).name
    if Path(flag.value).is_absolute() or not name:
        return _stays(flag)
    *words, word = flag.holding("out")
    path = f"/{_literal(name)}"
    return DraftedWord(" ".join(flag.typed), (*words, word + path), f"{{out}}{path}")


KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def typed_value(text: str) -> Any:
    """The text as a boolean, a number, or itself."""
    for pair in BOOLEANS[:2]:
        if text in pair:
            return text == pair[0]
    if WHOLE.fullmatch(text):
        return int(text)
    return float(text) if DECIMAL.fullmatch(text) else text


def _plain(key: str) -> str:
    """In lower case and without separators: ``learningrate``."""
    return re.sub(r"[\W_]", "", key).lower()


def _is_data(value: Any, here: Path) -> bool:
    return isinstance(value, str) and bool(value) and (here / value).is_file()


def _literal(word: str) -> str:
    """The word as a template holds it: what looks like a placeholder is none."""
    return PLACEHOLDER.sub(lambda match: f"{{{match[0]}}}", word)
