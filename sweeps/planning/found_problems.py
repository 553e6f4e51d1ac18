"""The problems found while rows are composed: each is told once, with the place of its value."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sweeps.planning.made_rows import MadeRows
from sweeps.planning.naming import other_study
from sweeps.planning.overrides import COMMAND_LINE, Overrides
from sweeps.planning.suggestions import known_keys, other_name
from sweeps.planning.yaml_content import BASE
from sweeps.planning.yaml_files import Library
from sweeps.schema import IS_MISSING, UNKNOWN_KEY, Problem, RefusedError


class FoundProblems:
    """``overrides`` are the typed ones on top of the study's. ``choices`` are the options that are read.

    ``made`` are the rows without a file, ``recorded`` those that only the ``study`` has.
    """

    def __init__(
        self, typed: Overrides, overrides: Overrides, problems: list[Problem], library: Library, study: Path | None
    ) -> None:
        self.typed, self.overrides, self.library, self.every, self.study = typed, overrides, library, problems, study
        self.recorded: set[str] = set()
        self.choices: dict[str, str] = {}
        self.wrong_in_base: set[str] = set()
        self.made = MadeRows()

    def refuse(self, key: str, found: str, allowed: str, meant: str | None) -> None:
        """Keep a problem of the command line."""
        self.every.append(Problem(key, found, allowed, meant, COMMAND_LINE))

    def readable(self, group: str, name: str) -> bool:
        """Whether the option's file can be read. Its problems are kept."""
        try:
            self.every += self.library.examined(group, name)
        except RefusedError as error:
            self.every += error.problems
            return False
        return True

    def note(self, problems: Iterable[Problem], row: str) -> None:
        """Keep the problems, each with the place that set the value. A wrong value of base is no fault of the rows."""
        choices = {**self.choices, "row": row}
        found = [problem for problem in problems if row == BASE or problem.key not in self.wrong_in_base]
        self.wrong_in_base |= {problem.key for problem in found if row == BASE}
        for problem in found:
            key = problem.key
            near = (problem.found == UNKNOWN_KEY and other_name(key, known_keys(self.library.tree))) or problem.nearest
            place = problem.place or self.source(key) or self.made.place(row, key) or self._record_of(row)
            where = self.library.missing_in if problem.found == IS_MISSING else self.library.locate
            allowed = f"{problem.allowed}{self._way_out(place)}"
            self.every.append(replace(problem, allowed=allowed, place=place or where(key, choices), nearest=near))

    def source(self, key: str) -> str | None:
        """Where the value of an override comes from; None if the key has no override."""
        if key in self.typed.values:
            return COMMAND_LINE
        return self._record if key in self.overrides.values else None

    @property
    def _record(self) -> str | None:
        """The file of the recorded study."""
        return self.library.show(self.study / "study.json") if self.study else None

    def _record_of(self, row: str) -> str | None:
        return self._record if row in self.recorded else None

    def _way_out(self, place: str | None) -> str:
        """What to type about a value that the study has recorded."""
        if self.study is None or place != self._record:
            return ""
        return f"; recorded by {self.study.name}: {other_study(self.study)}"
