"""What the rows of a command come from, and where each value is set."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from sweeps.config.files import BASE
from sweeps.config.hydra.composer import option
from sweeps.config.library import Library
from sweeps.config.overrides import Overrides
from sweeps.config.rows.made_rows import MadeRow, MadeRows
from sweeps.problems import COMMAND_LINE, RefusedError


class RowSources:
    """The files of ``library``, a command's overrides, and the ``study`` that has recorded more of
    them.

    ``typed`` are the command's overrides. ``overrides`` are these on top of the ones that the study
    has recorded, with the names of its ``recorded_rows``. ``chosen`` are the options that rows are
    composed from; ``made`` are the rows without a file.
    """

    def __init__(
        self,
        library: Library,
        typed: Overrides,
        overrides: Overrides,
        study: Path | None = None,
        recorded_rows: Collection[str] = (),
    ) -> None:
        self.library = library
        self.typed = typed
        self.overrides = overrides
        self.study = study
        self.recorded_rows = recorded_rows
        self.chosen = dict(overrides.choices)
        self.made = MadeRows(library, self.place_of_maker, self.choice)

    def options(self, row: str, extra: Mapping[str, str] | None = None) -> list[str]:
        """The options from which Hydra composes a row, without its scale. ``extra`` options replace
        chosen ones."""
        choices = {**self.chosen, **(extra or {})}
        options = [
            option(group, name) for group, name in choices.items() if group not in ("row", "scale")
        ]
        if row != self.library.defaults["row"]:
            options.append(option("row", row))
        return options

    def paper_options(self, row: str, extra: Mapping[str, str] | None = None) -> list[str]:
        """The same for the row at the paper's size."""
        return [*self.options(row, extra), "~scale"]

    def own_options(self, row: str) -> dict[str, str]:
        """The options that the row's file, or the row that it builds on, chooses instead of the
        task's defaults."""
        if not self._has_file(row):
            return {}
        choices = self._choices_from([option("row", row)])
        defaults = self.library.defaults
        return {group: name for group, name in choices.items() if name != defaults.get(group)}

    def choices(self, row: str) -> dict[str, str]:
        """The option that the row is composed from in each group other than ``row`` and ``scale``.
        The task's defaults if it cannot be composed."""
        made_row = self.made.row(row) or MadeRow(parent=row)
        parent = made_row.parent if self._has_file(made_row.parent) else BASE
        return self._choices_from(self.paper_options(parent, made_row.options))

    def _choices_from(self, options: Sequence[str]) -> dict[str, str]:
        """What Hydra chooses in each group other than ``row`` and ``scale``, from these options.
        The task's defaults if they cannot be composed."""
        try:
            choices = self.library.composer.choices(*options)
        except RefusedError:  # composing the row reports it
            choices = self.library.defaults
        return {group: name for group, name in choices.items() if group not in ("row", "scale")}

    def choice(self, row: str, group: str) -> str | None:
        """The option of this group that the row is composed from."""
        return self.choices(row).get(group)

    def _has_file(self, row: str) -> bool:
        return row in self.library.folders.options("row")

    @property
    def scale_option(self) -> list[str]:
        return [option("scale", self.chosen["scale"])] if "scale" in self.chosen else []

    def source(self, key: str) -> str | None:
        """The command line or the study's record, whichever overrides the key; None if neither
        does."""
        synonyms = {"sweep.rows": "row", "sweep.seeds": self.library.schema.seed}
        synonym = synonyms.get(key, key)
        typed_keys = {*self.typed.values, *self.typed.sweeps}
        if key in typed_keys or synonym in typed_keys or synonym in self.typed.choices:
            return COMMAND_LINE
        return self.record if key in self.overrides.values else None

    def place_of_maker(self, key: str) -> str | None:
        """Where a key that makes rows is set. ``key`` may be longer, such as
        sweep.vary.model.n_heads."""
        maker = ".".join(key.split(".")[:2])
        return self.source(maker) or self.library.place_of(key, *self.options(BASE))

    def is_only_recorded(self, row: str) -> bool:
        """Whether only the study has the row: no file has it, and nothing makes it."""
        has_source = row in self.made.rows or row in self.made.drafts or self._has_file(row)
        return row in self.recorded_rows and not has_source

    def place(self, key: str, row: str) -> str | None:
        """Where the row's value is set, or should be; None if that is unknown."""
        if source := self.source(key):
            return source
        made_row = self.made.row(row) or MadeRow(parent=row or BASE)
        if key in made_row.values or key in made_row.final:
            return made_row.place
        if self.is_only_recorded(row):
            return self.record
        return self._place_in_files(key, row, made_row)

    def _place_in_files(self, key: str, row: str, made_row: MadeRow) -> str | None:
        folders = self.library.folders
        file = folders.find(BASE if row == BASE else f"row/{row}")
        if row != BASE and file:  # the row's value was meant, though the scale's is above it
            location = self.library.place_of(key, *self.options(row), "~scale")
            if location and location.startswith(f"{folders.show(file)}:"):
                return location
        options = self.options(made_row.parent, made_row.options)
        location = self.library.place_of(key, *options, *self.scale_option)
        if location:
            return location
        should_set = row != BASE or key.partition(".")[0] in self.library.schema.groups
        return f"{folders.show(file)}:1" if file and should_set else None

    @property
    def record(self) -> str | None:
        """The file of the recorded study."""
        return self.library.folders.show(self.study / "study.json") if self.study else None
