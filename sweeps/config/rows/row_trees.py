"""Rows as plain data: as Hydra composes them, at the paper's size and with the scale on top."""

from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sweeps.config.files import BASE, file_problems, lines_of
from sweeps.config.hydra.references import changing_keys, changing_problem, resolved
from sweeps.config.rows.made_rows import MadeRow
from sweeps.config.rows.problem_collector import ProblemCollector
from sweeps.config.rows.row_keys import builds_on, own_keys
from sweeps.config.rows.row_scale import (
    Kept,
    Layered,
    apply_scale,
    before_scaling,
    keep_differences,
)
from sweeps.config.rows.row_sources import RowSources
from sweeps.config.settings import VARY, Scale, parse_scale
from sweeps.problems import Problem, RefusedError
from sweeps.trees import Tree, Values, assigned, differences, merged, nested

ALL = "all"
"""``sweep.rows=all``: the rows that the sweep's file lists. In that file: base, and every row with
a file."""


@dataclass(frozen=True)
class Scaled:
    """One row after scaling, without the other overrides.

    ``before`` is its change at the paper's size; "" if scaling does not affect that. ``own_keys``
    are those that it sets itself. ``builds_on`` is the row of which it changes only keys that
    score; None if it changes others. ``location`` is the user's file with the row, or what makes
    it.
    """

    tree: Tree
    kept: Kept = field(default_factory=Kept)
    before: str = ""
    own_keys: Collection[str] = ()
    builds_on: str | None = None
    location: str | None = None


class RowTrees:
    """Composes each row once. Overrides in the group ``scale`` decide how rows are scaled."""

    def __init__(self, sources: RowSources, collector: ProblemCollector) -> None:
        self.sources = sources
        self.collector = collector
        self.library = sources.library
        self.schema = sources.library.schema
        self._divisors = sources.overrides.of_group("scale")
        self._papers: dict[str, Tree | None] = {}
        self._scaled: dict[str, Scaled | None] = {}

    def scaled(self, row: str) -> Scaled | None:
        """The row after scaling; None if it cannot be composed. Its problems are collected."""
        if row not in self._scaled:
            scaled = self._scale_row(row)
            self._scaled[row] = scaled and self._with_origin(scaled, row)
        return self._scaled[row]

    def final(self, row: str, scaled: Scaled, values: Values) -> Tree | None:
        """The row with these values and its own final ones, which stand above them; without
        references. None if one cannot be resolved. Its problems are collected."""
        made_row = self.sources.made.row(row)
        own_values = made_row.final if made_row else {}
        return self.resolved(assigned(scaled.tree, values | own_values), row)

    def readable(self, group: str, name: str) -> bool:
        """Whether the option's file can be read. The problems of a user's file are collected."""
        path = f"{group}/{name}".lstrip("/")
        folders = self.library.folders
        self.collector.problems += folders.shadowing(path)
        file = folders.find(path)
        if file is None or not folders.is_own(file):
            return True
        try:
            problems = file_problems(file, folders.show(file), group, self.schema)
        except RefusedError as error:
            self.collector.problems += error.problems
            return False
        self.collector.note(problems, BASE if path == BASE else "")
        return True

    @cached_property
    def varied(self) -> Any:
        """``sweep.vary`` of the sweep's file; empty or None if it has none."""
        options = [*self.sources.options(BASE), *self.sources.scale_option]
        return self.library.composer.compose(*options)["sweep"].get("vary")

    @cached_property
    def base(self) -> Layered | None:
        return self._layered(BASE)

    @cached_property
    def listed(self) -> Any:
        """``sweep.rows`` from the files: the order of the study's table."""
        return self.base.scaled["sweep"].get("rows") if self.base is not None else None

    @cached_property
    def lists_all(self) -> bool:
        """Whether the sweep's file says ``rows: all``, which takes every row that has a file."""
        options = [*self.sources.options(BASE), *self.sources.scale_option]
        return bool(self.library.composer.compose(*options)["sweep"].get("rows") == ALL)

    def _with_origin(self, scaled: Scaled, row: str) -> Scaled:
        """The row with what it sets itself, and where."""
        folders = self.library.folders
        made_row = self.sources.made.row(row)
        file = folders.find(f"row/{row}")
        location = made_row.place if made_row else None
        if file and folders.is_own(file):
            location = folders.show(file)
        return replace(
            scaled,
            own_keys=own_keys(row, made_row, folders, self.schema),
            builds_on=builds_on(row, made_row, self.sources.choices, folders, self.schema),
            location=location,
        )

    def _scale_row(self, row: str) -> Scaled | None:
        layered = self.base if row == BASE else self._layered(row)
        base = self.base
        if layered is None or base is None:
            return None
        tree = deepcopy(layered.scaled)
        scale, problems = parse_scale(self.library.task, tree["scale"])
        if scale is None:
            self.collector.note(problems, row)
            return Scaled(tree)
        scaled_row = Layered(layered.paper, tree)
        kept_differences = keep_differences(scaled_row, base, scale, self.schema)
        self._divide(scaled_row, base, scale, kept_differences.problems, row)
        made_row = self.sources.made.row(row)
        file = self.library.folders.find(f"row/{row}")
        if made_row and made_row.final:  # its own values are not scaled
            return Scaled(assigned(tree, made_row.final), kept_differences)
        file_keys = lines_of(file) if file else ()
        change = before_scaling(scaled_row, base, self.schema, file_keys)
        return Scaled(tree, kept_differences, change)

    def _divide(
        self, layered: Layered, base: Layered, scale: Scale, problems: list[Problem], row: str
    ) -> None:
        """Divide the row's values, and collect its ``problems`` unless base has some: those are the
        scale's fault."""
        schema = self.schema
        changed = differences(base.paper, layered.paper, schema.groups)
        undivided = apply_scale(layered.scaled, scale, schema, changed)
        base_problems = apply_scale(deepcopy(base.scaled), scale, schema)
        self.collector.note(base_problems or [*problems, *undivided], row)

    def _layered(self, row: str) -> Layered | None:
        """The row without and with its scale. References get values at the paper's size."""
        paper = self._paper(row)
        if paper is None or self._overlay is None:
            return None
        scaled = merged(paper, self._overlay)
        paper = paper | {"scale": scaled["scale"]}
        resolved_paper = self.resolved(assigned(paper, self._divisors), row)
        resolved_scaled = self.resolved(assigned(scaled, self._divisors), row)
        if resolved_paper is None or resolved_scaled is None:
            return None
        return Layered(resolved_paper, resolved_scaled)

    def resolved(self, tree: Tree, row: str) -> Tree | None:
        """The tree without references; None if one cannot be resolved. Its problems are
        collected."""
        plain, problems = resolved(tree)
        for key in changing_keys(tree):
            if self._must_stay(key):
                problems.append(changing_problem(key, tree))
        self.collector.note(problems, row)
        return plain

    def _must_stay(self, key: str) -> bool:
        """Whether a trial trains or scores again when the key's value changes."""
        role = self.schema.fingerprinted.get(key)
        may_change = key in self.schema.observes or (role is not None and role.place)
        return key.split(".")[0] in (*self.schema.groups, "scale") and not may_change

    @cached_property
    def _overlay(self) -> Tree | None:
        """The values that the scale sets, with their references.

        If the scale sets a value in the place of a group, it is here too, and the schema refuses
        it.
        """
        base = self._paper(BASE)
        scaled = self._composed(*self.sources.options(BASE), *self.sources.scale_option)
        if base is None or scaled is None:
            return None
        no_groups = {
            group: scaled[group]
            for group in self.schema.groups
            if not isinstance(scaled.get(group, {}), dict)
        }
        return _changed_values(base, scaled) | no_groups

    def _paper(self, row: str) -> Tree | None:
        """A row before its scale, with its references; None if it cannot be composed."""
        if row not in self._papers:
            self._papers[row] = self._compose_paper(row)
        return self._papers[row]

    def _compose_paper(self, row: str) -> Tree | None:
        """The same, not cached. A made row looks as if it had a file."""
        made_row = self.sources.made.row(row) or MadeRow(parent=row)
        options = self.sources.paper_options(made_row.parent, made_row.options)
        tree = self._composed(*options) if self.readable("row", made_row.parent) else None
        if tree is None:
            return None
        if made_row.parent != row:
            row_group = {"group": made_row.group or tree["row"].get("group")}
            return merged(tree, nested(made_row.values)) | {"row": row_group}
        if row != BASE:
            self._drop_inherited_words(tree, row)
        return tree

    def _drop_inherited_words(self, tree: Tree, row: str) -> None:
        """Remove words and published figures that are not in the row's own file, but in that of its
        parent."""
        file = self.library.folders.find(f"row/{row}")
        row_group = tree.get("row")
        if file is None or not isinstance(row_group, dict):
            return
        file_keys = lines_of(file)
        if "row.change" not in file_keys:
            row_group.pop("change", None)
        published = row_group.get("published")
        if isinstance(published, dict):
            row_group["published"] = {
                name: figure
                for name, figure in published.items()
                if f"row.published.{name}" in file_keys
            }

    def _composed(self, *options: str) -> Tree | None:
        """The tree from Hydra, without lists that make rows; None after a refusal, whose problems
        are collected."""
        try:
            tree = deepcopy(self.library.composer.compose(*options))
        except RefusedError as error:
            self.collector.problems += error.problems
            return None
        sweep = {key: value for key, value in tree["sweep"].items() if f"sweep.{key}" != VARY}
        if sweep.get("rows") == ALL:
            sweep["rows"] = list(dict.fromkeys([BASE, *self.library.folders.options("row")]))
        return {**tree, "sweep": sweep}


def _changed_values(below: Tree, above: Tree) -> Tree:
    """The values of ``above`` that differ from those of ``below``, in groups and mappings."""
    changed: Tree = {}
    for key, value in above.items():
        value_below = below.get(key)
        if isinstance(value, dict) and isinstance(value_below, dict):
            inner = _changed_values(value_below, value)
            if inner:
                changed[key] = inner
        elif key not in below or repr(value) != repr(value_below):
            changed[key] = value
    return changed
