"""The composed rows of a study, and what became of them."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sweeps.config.overrides import Overrides
from sweeps.config.scale import Kept
from sweeps.config.schema import task_card
from sweeps.config.settings import Settings
from tracking.table.caption import scaling_note


@dataclass(frozen=True)
class ComposedRow:
    """One row, and the dotted keys by which it differs from base before overrides."""

    name: str
    settings: Settings
    changes: dict[str, Any]
    kept: Kept = field(default_factory=Kept)
    place: str | None = None  # file:line of the user's file, or the command line that made the row
    before_scaling: str = ""  # its change before scaling, if the scale touches a key that it sets


@dataclass(frozen=True)
class Composition:
    """The rows of a study. Their changes are relative to ``base``; ``listed`` is the order of the table.

    ``typed`` holds the overrides of the command line; ``overrides`` adds those that the study has recorded.
    ``ignored`` is a file that looks like the base of this study and is not read. ``made`` tells of rows without files.
    """

    rows: tuple[ComposedRow, ...]
    base: Settings
    listed: tuple[str, ...]
    typed: Overrides = field(default_factory=Overrides)
    overrides: Overrides = field(default_factory=Overrides)
    defaults: dict[str, str] = field(default_factory=dict)
    ignored: str | None = None
    made: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What became of row differences in keys that the scale sets, and of the user's file."""
        scale, steps = self.base.scale.name, self.base.source.task.steps(self.base.trial)
        kept = [f"{row.name} {key} {value}" for row in self.rows for key, value in row.kept.values.items()]
        left_out = [f"{key} of {row.name}" for row in self.rows for key in row.kept.left_out]
        notes = [f"Scale {scale} sets these, so rows keep them in proportion to base: {', '.join(kept)}."] * bool(kept)
        ignored = f"At scale {scale} every row trains for {steps} steps; ignored: {', '.join(left_out)}."
        notes += [ignored] * bool(left_out)
        notes += self.made
        return notes + [f"{self.ignored} is not read: change base by a row, a scale or overrides."] * bool(self.ignored)

    def names(self, rows: Collection[str]) -> list[str]:
        """A line that explains the names of those of the rows which a scale makes other values of."""
        changes = {row.name: row.before_scaling for row in self.rows if row.before_scaling and row.name in rows}
        note = scaling_note(task_card(self.base.source.task), changes)
        return [note] * bool(note)

    @property
    def shared(self) -> Settings:
        """Settings that no row may change: cluster, sweep, tracking, paths."""
        return self.rows[0].settings
