"""The composed rows of a study: what each changes, and what a scale makes of that."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from sweeps.config.overrides import Overrides
from sweeps.config.rows.row_scale import Kept
from sweeps.config.schema import Schema
from sweeps.config.settings import Settings
from sweeps.trees import Values
from tracking.table.caption import scaling_note


@dataclass(frozen=True)
class ComposedRow:
    """One row, and the dotted keys by which it differs from base before overrides.

    ``location`` is the user's file, or what made the row. ``before_scaling`` is its change before
    scaling, if the scale touches a key that it sets. ``builds_on`` is the row of which it changes
    only keys that score; None if it changes others.
    """

    name: str
    settings: Settings
    changes: Values
    kept: Kept = field(default_factory=Kept)
    location: str | None = None
    before_scaling: str = ""
    builds_on: str | None = None


@dataclass(frozen=True)
class Composition:
    """The rows of a study. Their changes are relative to ``base``.

    ``table_order`` has the rows that the sweep's file lists; ``lists_all`` says that it names none.
    ``overrides`` are the ``typed`` ones on top of the recorded ones. ``place_of`` returns where a
    key of a row was set. ``row_notes`` are lines on rows without files, on files that are not
    read or not in the study, and on the task.
    """

    rows: tuple[ComposedRow, ...]
    base: Settings
    table_order: tuple[str, ...]
    overrides: Overrides
    typed: Overrides
    defaults: dict[str, str]
    place_of: Callable[[str, str], str | None]
    row_notes: tuple[str, ...] = ()
    lists_all: bool = False

    @property
    def schema(self) -> Schema:
        return self.base.schema

    @property
    def shared(self) -> Settings:
        """Settings that no row may change: cluster, sweep, tracking, paths."""
        return self.rows[0].settings

    @property
    def notes(self) -> list[str]:
        """What became of row differences in keys that the scale sets, and the other notes."""
        return [*self._proportion_note(), *self._steps_note(), *self.row_notes]

    def _proportion_note(self) -> list[str]:
        changes = [
            f"{row.name} {key} {value}"
            for row in self.rows
            for key, value in row.kept.values.items()
        ]
        if not changes:
            return []
        scale = self.base.scale.name
        listing = ", ".join(changes)
        return [f"Scale {scale} sets these, so rows keep them in proportion to base: {listing}."]

    def _steps_note(self) -> list[str]:
        keys = [f"{key} of {row.name}" for row in self.rows for key in row.kept.left_out]
        if not keys:
            return []
        scale = self.base.scale.name
        steps = self.base.task.steps(self.base.config)
        ignored = ", ".join(keys)
        return [f"At scale {scale} every row trains for {steps} steps; ignored: {ignored}."]

    def names(self, rows: Collection[str]) -> list[str]:
        """A line that explains the names of the rows whose values a scale changes."""
        changes = {
            row.name: row.before_scaling
            for row in self.rows
            if row.before_scaling and row.name in rows
        }
        note = scaling_note(changes)
        return [note] if note else []
