"""What a command asks for: its overrides, read and checked, and what rows are composed from."""

from dataclasses import dataclass, replace
from typing import Any

from sweeps.config.files import BASE
from sweeps.config.library import Library
from sweeps.config.overrides import Overrides, parse_overrides
from sweeps.config.rows.made_rows import MadeRows
from sweeps.config.rows.problem_collector import ProblemCollector
from sweeps.config.rows.row_scale import Layered
from sweeps.config.rows.row_sources import RowSources
from sweeps.config.rows.row_trees import ALL, RowTrees, Scaled
from sweeps.config.settings import VARY
from sweeps.planning.studies.advice import other_study
from sweeps.planning.study_rows.study_record import StudyRecord
from sweeps.trees import Values, assigned

HOW_TO_RESTORE = "restore the file, or choose another sweep.name"


@dataclass(frozen=True)
class Request:
    """A command's overrides, and what its rows are composed from.

    ``typed`` are the command's overrides. ``overrides`` are these on top of the study's recorded
    ones. ``values`` are the ones of ``overrides`` that rows get. ``sources``: what they are composed
    from. ``collector`` collects problems, which are reported together.
    """

    record: StudyRecord | None
    typed: Overrides
    overrides: Overrides
    values: Values
    sources: RowSources
    collector: ProblemCollector
    trees: RowTrees

    @property
    def library(self) -> Library:
        return self.sources.library

    @property
    def seed(self) -> str | None:
        """The task's own key for a seed."""
        return self.library.schema.seed

    @property
    def made(self) -> MadeRows:
        return self.sources.made

    @property
    def base(self) -> Layered | None:
        return self.trees.base

    @property
    def ignored_notes(self) -> tuple[str, ...]:
        """A line on a file that is not read, if there is one."""
        ignored = self.library.folders.ignored
        if not ignored:
            return ()
        return (f"{ignored} is not read: change base by a row, a scale or overrides.",)

    def scaled(self, row: str) -> Scaled | None:
        """The row after scaling; None if it cannot be composed.

        A row without a file is the one that the study has recorded.
        """
        if self.record is None or not self.sources.is_only_recorded(row):
            return self.trees.scaled(row)
        base = self.trees.scaled(BASE)
        if base is None:
            return None
        recorded = self.record.rows[row]
        row_group = {"change": "", "published": {}, **recorded.row_words}
        tree = assigned(base.tree, recorded.values) | {"row": row_group}
        return Scaled(tree, before=recorded.before_scaling)

    def final_value(self, row: str, key: str) -> Any:
        """A row's value after scaling and overrides, to which a swept value is compared."""
        group, _, name = key.partition(".")
        scaled_row = self.scaled(row)
        in_files = scaled_row.tree.get(group, {}).get(name) if scaled_row else None
        return self.values.get(key, in_files)


def read_request(
    overrides: list[str],
    library: Library,
    record: StudyRecord | None = None,
    sweeps: bool = False,
) -> Request:
    """The parsed overrides, with the problems of their form and of the files that they choose.

    ``sweeps``: a key may have several values, and the task's own key for a seed sets
    ``sweep.seeds``.
    """
    recorded_rows = tuple(record.rows) if record else ()
    typed, problems = parse_overrides(overrides, library, recorded_rows, sweeps)
    merged = record.below(typed) if record else typed
    study = record.study.folder if record else None
    sources = RowSources(library, typed, merged, study, recorded_rows)
    way_out = ""
    if record is not None:
        hint = other_study(record.study.folder)
        way_out = f"; recorded by {record.study.name}: {hint}"
    collector = ProblemCollector(sources, way_out)
    collector.problems += problems
    values = {key: value for key, value in merged.values.items() if key != VARY}
    trees = RowTrees(sources, collector)
    _check_files(collector, trees)
    if values.get("sweep.rows") == ALL:
        values["sweep.rows"] = trees.listed
    seeds = _typed_seeds(collector) if sweeps else None
    if seeds is not None:
        values.pop(str(library.schema.seed), None)
        values["sweep.seeds"] = seeds
    return Request(record, typed, merged, values, sources, collector, trees)


def _check_files(collector: ProblemCollector, trees: RowTrees) -> None:
    """Collect the problems in the form of the user's files. A default replaces a wrong option, so
    that the rest is checked too."""
    sources = collector.sources
    library = sources.library
    collector.problems += library.folders.misnamed("row")
    trees.readable("", BASE)
    for group in library.groups:
        if group == "row":
            continue
        name = sources.chosen.get(group, library.defaults[group])
        missing = library.folders.unknown_option(group, name, sources.record)
        if missing:  # the study has recorded the option
            collector.problems.append(replace(missing, allowed=HOW_TO_RESTORE))
        if missing or not trees.readable(group, name):
            sources.chosen.pop(group, None)


def _typed_seeds(collector: ProblemCollector) -> list[Any] | None:
    """The seeds that the task's own key lists; None if it is not typed."""
    key = collector.sources.library.schema.seed
    typed = collector.sources.typed
    if key is None or key not in (*typed.values, *typed.sweeps):
        return None
    if "sweep.seeds" in typed.values:
        allowed = "give the seeds once, with sweep.seeds=[1,2,3]"
        collector.refuse(key, "and sweep.seeds are both given", allowed)
    return typed.sweeps.get(key) or [typed.values[key]]
