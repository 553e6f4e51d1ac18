"""The problems found while rows are composed: each is told once, with the place of its value."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from sweeps.config.folders import BASE
from sweeps.config.hydra import option
from sweeps.config.library import COMMAND_LINE, Library, place_of, place_of_missing
from sweeps.config.overrides import Overrides
from sweeps.config.suggest import other_name
from sweeps.config.vary import MadeRow, MadeRows
from sweeps.schema import IS_MISSING, UNKNOWN_KEY, Problem


class Found:
    """``overrides`` are the ``typed`` ones on top of those that the ``study`` has recorded, with its ``rows``."""

    def __init__(
        self,
        library: Library,
        typed: Overrides,
        overrides: Overrides,
        study: Path | None = None,
        rows: Collection[str] = (),
    ) -> None:
        self.library, self.typed, self.overrides, self.study, self.recorded = library, typed, overrides, study, rows
        self.chosen = dict(overrides.choices)
        self.every: list[Problem] = []
        self.made = MadeRows()
        self.way_out = ""  # what to type about a value that the study has recorded
        self._wrong_in_base: set[str] = set()

    def refuse(self, key: str, found: str, allowed: str, meant: str | None = None) -> None:
        """Keep a problem of the command line."""
        self.every.append(Problem(key, found, allowed, meant, COMMAND_LINE))

    def note(self, problems: Iterable[Problem], row: str = "") -> None:
        """Keep the problems, each with the place that set the value. A wrong value of base is no fault of the rows."""
        new = [problem for problem in problems if row == BASE or problem.key not in self._wrong_in_base]
        self._wrong_in_base |= {problem.key for problem in new if row == BASE}
        for problem in new:
            near = (problem.found == UNKNOWN_KEY and other_name(problem.key, self.library.keys)) or problem.nearest
            place = problem.place or self.place(problem.key, row, problem.found == IS_MISSING)
            allowed = problem.allowed + (self.way_out if self.study and place == self._record else "")
            if problem.found != UNKNOWN_KEY or not self._is_told(problem.key, place):
                self.every.append(replace(problem, allowed=allowed, place=place, nearest=near))

    def options(self, row: str, more: Mapping[str, str] | None = None) -> list[str]:
        """What Hydra composes a row from, but for the scale."""
        chosen = {key: name for key, name in {**self.chosen, **(more or {})}.items() if key not in ("row", "scale")}
        rows = [option("row", row)] if row != self.library.defaults["row"] else []
        return [*(option(group, name) for group, name in chosen.items()), *rows]

    @property
    def scale_option(self) -> list[str]:
        return [option("scale", self.chosen["scale"])] if "scale" in self.chosen else []

    def source(self, key: str) -> str | None:
        """Where the value of an override comes from; None if the key has no override."""
        meant = {"sweep.rows": "row", "sweep.seeds": self.library.schema.seed}.get(key, key)
        if not {key, meant}.isdisjoint([*self.typed.values, *self.typed.sweeps]) or meant in self.typed.choices:
            return COMMAND_LINE
        return self._record if key in self.overrides.values else None

    def place_of_maker(self, key: str) -> str | None:
        """Where a key that makes rows was written."""
        return self.source(".".join(key.split(".")[:2])) or place_of(key, self.library.hydra, *self.options(BASE))

    def is_only_recorded(self, row: str) -> bool:
        """Whether the row has no file and is not made: the study alone has it."""
        return row in self.recorded and row not in (*self.made.rows, *self.library.folders.options("row"))

    def _is_told(self, key: str, place: str | None) -> bool:
        """Whether this line is refused for this key, or for the group that holds it."""
        return any(place and each.place == place and f"{key}.".startswith(f"{each.key}.") for each in self.every)

    def place(self, key: str, row: str, missing: bool = False) -> str | None:
        """Where the row's value was set, or should have been."""
        made = self.made.rows.get(row, MadeRow(of=row or BASE))
        if source := self.source(key):
            return source
        if key in {**made.values, **made.final}:
            return made.place
        if self.is_only_recorded(row):
            return self._record
        find, file = place_of_missing if missing else place_of, self.library.folders.find(f"row/{row}")
        if row != BASE and file:  # its value was meant, though the scale's stands above it
            own = find(key, self.library.hydra, *self.options(row), "~scale")
            if own and own.startswith(f"{self.library.folders.show(file)}:"):
                return own
        return find(key, self.library.hydra, *self.options(made.of, made.options), *self.scale_option)

    @property
    def _record(self) -> str | None:
        """The file of the recorded study."""
        return self.library.folders.show(self.study / "study.json") if self.study else None
