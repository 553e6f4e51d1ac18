"""Collects the problems of a command, each with the place that set the value."""

from collections.abc import Iterable
from dataclasses import replace

from sweeps.config.files import BASE
from sweeps.config.rows.row_sources import RowSources
from sweeps.problems import COMMAND_LINE, UNKNOWN_KEY, Problem


class ProblemCollector:
    """Collects a command's problems in ``problems``, each with its place in the ``sources``.

    ``way_out``: what to type about a value that the study has recorded.
    """

    def __init__(self, sources: RowSources, way_out: str = "") -> None:
        self.sources = sources
        self.way_out = way_out
        self.problems: list[Problem] = []
        self._wrong_in_base: set[str] = set()

    def refuse(self, key: str, fault: str, allowed: str, nearest: str | None = None) -> None:
        """Keep a problem of the command line."""
        self.problems.append(Problem(key, fault, allowed, nearest, COMMAND_LINE))

    def note(self, problems: Iterable[Problem], row: str = "") -> None:
        """Keep a row's problems, each with the place that set the value.

        A key that is already wrong in base is not reported again for rows.
        """
        known_keys = set() if row == BASE else self._wrong_in_base
        new_problems = [problem for problem in problems if problem.key not in known_keys]
        if row == BASE:
            self._wrong_in_base |= {problem.key for problem in new_problems}
        for problem in new_problems:
            location = problem.place or self.sources.place(problem.key, row)
            if not self._is_repeated(problem, location):
                self.problems.append(self._completed(problem, location, row))

    def _is_repeated(self, problem: Problem, location: str | None) -> bool:
        """Whether an unknown key was already reported with what its file may set."""
        if problem.found != UNKNOWN_KEY:
            return False
        return any(
            (earlier.key, earlier.place) == (problem.key, location) for earlier in self.problems
        )

    def _completed(self, problem: Problem, location: str | None, row: str) -> Problem:
        """The problem with its place, and with a hint at what you may have meant."""
        fault = problem.found
        allowed = problem.allowed
        nearest = problem.nearest
        if problem.found == UNKNOWN_KEY:
            nearest = self.sources.library.hints.other_name(problem.key) or problem.nearest
        if row == BASE and problem.key in self.sources.typed.sweeps:
            fault += " in base, which every row is compared with"
        if location is not None and location == self.sources.record:
            allowed += self.way_out
        return replace(problem, found=fault, allowed=allowed, place=location, nearest=nearest)
