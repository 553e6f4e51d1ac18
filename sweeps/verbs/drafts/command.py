"""Writes ``conf/task/NAME.yaml`` for a command as it was typed."""

import os
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from shutil import which

from rich.markup import escape
from rich.table import Table

from sweeps.command_task.draft import STAYS, Draft, draft
from sweeps.command_task.draft_text import text_of_draft
from sweeps.command_task.lookup import FOLDER, NAME
from sweeps.command_task.template import typed_command
from sweeps.config.tasks import ENTRY_POINTS, OURS, known_tasks
from sweeps.console import OUT, next_command, print_line
from sweeps.planning.studies.advice import command
from sweeps.problems import Problem, refusal, refuse
from tracking.shell import shell_line
from tracking.uri import is_secret

ADVICE = (
    "`args` are the keys that rows change. Null leaves an argument out.",
    "Name the metrics in that file; `allelse probe` lists what the command writes.",
)


def write_draft(name: str, typed: Sequence[str], here: Path) -> None:
    """Write the file, and show what the words became. Raises RefusedError before it writes."""
    words = typed_command(typed)
    _refuse_program_as_name(name, words)
    refuse([*_name_problems(name, here), *_word_problems(words)])
    drafted = draft(words, here)
    path = FOLDER / f"{name}.yaml"
    (here / FOLDER).mkdir(parents=True, exist_ok=True)
    (here / path).write_text(text_of_draft(drafted), "utf-8")
    OUT.print(_table(drafted))
    print_line(OUT, f"Wrote {path}")
    for line in ADVICE:
        print_line(OUT, line)
    next_command(f"allelse probe -- {shell_line(words)}")


def _refuse_program_as_name(name: str, words: Sequence[str]) -> None:
    """Raises RefusedError for `init python train.py`: its name is a program, and its command a
    script that is none."""
    if which(name) and words[0].endswith(".py") and not which(words[0]):
        typed = command("init", "NAME", "--", name, *words)
        raise refusal("NAME", f'is "{name}", a program', f"a name comes first: type `{typed}`")


def _name_problems(name: str, here: Path) -> Iterator[Problem]:
    """What is wrong with the name, or in the way of the file."""
    path = FOLDER / f"{name}.yaml"
    if not NAME.fullmatch(name):
        allowed = "must be a letter, then letters, digits and _"
        yield Problem("NAME", f'is "{name}"', allowed)
        return
    if name in OURS or entry_points(group=ENTRY_POINTS, name=name):
        yield Problem("NAME", f'is "{name}", an installed task', "must be a new name")
    elif name in known_tasks(here) and not os.path.lexists(here / path):
        yield Problem("NAME", f'is "{name}", a task in {name}.py', "must be a new name")
    for folder in (FOLDER.parent, FOLDER):
        if os.path.lexists(here / folder) and not (here / folder).is_dir():
            yield Problem(str(folder), "is not a folder", "rename it, or work in another folder")
    if os.path.lexists(here / path):
        yield Problem(str(path), "exists", "choose another name, or edit that file")


def _word_problems(words: Sequence[str]) -> Iterator[Problem]:
    """Flags, variables and settings with secrets, which a file would hold."""
    for word in words:
        name, has_value, _ = word.partition("=")
        if (word.startswith("--") or has_value) and is_secret(name):
            allowed = "leave it out, and set an environment variable: trials inherit it"
            yield Problem(name, "looks like a secret, which the file would hold", allowed)


def _table(drafted: Draft) -> Table:
    """What each word became."""
    table = Table("typed", "becomes", box=None, padding=(0, 3, 0, 0))
    program = " ".join(drafted.program)
    table.add_row(escape(program), f"[dim]{STAYS}[/]")
    for name, text in drafted.env.items():
        table.add_row(escape(f"{name}={text}"), "env")
    for word in drafted.drafted:
        style = "dim" if word.becomes == STAYS else "bold"
        table.add_row(escape(word.typed), f"[{style}]{escape(word.becomes)}[/]")
    return table
