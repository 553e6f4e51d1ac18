"""What you choose for the table of a study: seeds, rows, metrics, columns and statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps.planning.studies.study_overrides import chosen
from sweeps.problems import Problem
from sweeps.verbs.names import NameCheck, rows_of, split_names
from tracking.statistics.study_findings import StudyFindings, find
from tracking.statistics.table_row import BASE, TableRow
from tracking.statistics.table_rows import table as table_rows
from tracking.study import Study, study_of_metrics, study_of_seeds
from tracking.table.layout import column_names, viewed
from tracking.table.study_table import StudyTable, View

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

SELECTING_RECORDED = ("sweep.rows=", "sweep.seeds=")
"""The overrides that select from a recorded study."""


class TableFormat(StrEnum):
    """The formats that `allelse table` prints."""

    md = "md"
    csv = "csv"
    json = "json"
    tex = "tex"
    html = "html"


@dataclass(frozen=True)
class TableOptions:
    """The options of `allelse table`, as you type them."""

    format: Annotated[
        TableFormat | None, typer.Option("--format", help="Print md, csv, json, tex or html.")
    ] = None
    set: Annotated[
        str | None, typer.Option("--set", help="Show the scores on this set, such as test.")
    ] = None
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Show this metric. Repeat it for several.")
    ] = None
    base: Annotated[str | None, typer.Option("--base", help="Show differences from this row.")] = (
        None
    )
    rows: Annotated[
        str | None, typer.Option("--rows", help="Show these rows, such as base,big.")
    ] = None
    columns: Annotated[
        str | None, typer.Option("--columns", help="Show these columns, by their names in CSV.")
    ] = None
    sort: Annotated[
        str | None,
        typer.Option("--sort", help="Sort by this column. The best value of a metric comes first."),
    ] = None
    best: Annotated[bool, typer.Option("--best", help="Print the best values in bold.")] = False
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Show the 95 % interval of each difference.")
    ] = False
    verdict: Annotated[
        bool,
        typer.Option(
            "--verdict", help="Show whether each difference agrees with the published one."
        ),
    ] = False
    chosen: Annotated[
        str | None,
        typer.Option(
            "--chosen", help="Among rows that score the same weights, show the best by this metric."
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="NAME[:ENDS]",
            help="Group samples by a number, such as length. length:10,20 sets the groups' ends.",
        ),
    ] = None
    row: Annotated[
        bool, typer.Option("--row/--no-row", help="Show the name of each row, as commands take it.")
    ] = False
    short: Annotated[
        bool | None,
        typer.Option(
            "--short/--long",
            help="A short caption for a paper, or a full one. The default is short only for tex.",
        ),
    ] = None
    caption: Annotated[str | None, typer.Option("--caption", help="Use this caption instead.")] = (
        None
    )
    label: Annotated[
        str | None, typer.Option("--label", help="The label in LaTeX, such as tab:ablation.")
    ] = None

    @property
    def for_programs(self) -> bool:
        """Whether the format holds everything."""
        return self.format in (TableFormat.csv, TableFormat.json)

    def typed(self) -> list[str]:
        """The names of the options that are not left out."""
        values = [(option, getattr(self, option.name)) for option in fields(self)]
        return [f"--{option.name}" for option, value in values if value not in (option.default, [])]


@dataclass(frozen=True)
class Choice:
    """Options and overrides that choose from a study."""

    study: Study
    settings: "Settings"
    overrides: Sequence[str]
    options: TableOptions = TableOptions()
    check: NameCheck = field(default_factory=NameCheck)

    def table(self) -> StudyTable:
        """The chosen table. Raises RefusedError with every name that the study does not have."""
        seeds = self._seeds()
        study = self._with_metrics(study_of_seeds(self.study, seeds) if seeds else self.study)
        study_rows = rows_of(study)
        base = self.check.existing_or_none(
            "--base", self.options.base, study_rows, "row of the study"
        )
        if base is not None:
            study = replace(study, references={})  # all rows are compared with this one
        shown_rows = self._rows(study_rows)
        self.check.refuse()  # the columns depend on the metrics
        rows = table_rows(study, base or BASE)
        full_table = StudyTable(study, rows, self._findings(study, rows, base or BASE))
        view = self._view(full_table, shown_rows, seeds)
        self.check.refuse()
        return viewed(replace(full_table, view=view))

    def _view(
        self, full_table: StudyTable, shown_rows: Sequence[str], seeds: tuple[int, ...]
    ) -> View:
        """The chosen view. Names that the table does not have become problems of the check."""
        options = self.options
        allowed = column_names(full_table, self.study.task.headline)
        columns: list[str] = []
        if options.columns is not None:
            columns = self.check.existing_in_list("--columns", options.columns, allowed, "column")
        return View(
            rows=tuple(shown_rows),
            columns=tuple(columns),
            sort=self.check.existing_or_none("--sort", options.sort, allowed, "column"),
            best=options.best,
            intervals=options.intervals,
            seeds=seeds,
            verdicts=options.verdict,
            names=options.row,
            short=options.short,
            caption=options.caption,
            label=options.label or "",
        )

    def study_with_chosen_seeds(self) -> Study:
        """The study with the seeds of ``sweep.seeds``. Raises RefusedError."""
        seeds = self._seeds()
        self.check.refuse()
        return study_of_seeds(self.study, seeds) if seeds else self.study

    def _findings(self, study: Study, rows: list[TableRow], base: str) -> StudyFindings:
        """The tests of the rows. Best scores during training need the trials' journals."""
        columns = [*split_names(self.options.columns), self.options.sort or ""]
        reads_journals = self.options.for_programs or any(
            name.startswith("best_") for name in columns
        )
        headline = self.study.task.headline if reads_journals else None
        findings = find(study, rows, base, headline)
        if self.options.verdict and not findings.verdicts:
            fault = f"needs published values of {base} and of another row"
            fix = "add row.published to the rows' files; it belongs to each metric's own set"
            self.check.problems.append(Problem("--verdict", fault, fix))
        return findings

    def _seeds(self) -> tuple[int, ...]:
        """The seeds of ``sweep.seeds``; empty if you did not type it, or if it leaves none out."""
        if not self._is_typed("sweep.seeds="):
            return ()
        unique_seeds = dict.fromkeys(trial.seed for trial in self.study.trials)
        allowed = list(map(str, unique_seeds))
        typed = list(map(str, self.settings.sweep.seeds))
        seeds = self.check.existing("sweep.seeds", typed, allowed, "seed of the study")
        if len(seeds) == len(allowed):
            return ()
        return tuple(map(int, seeds))

    def _rows(self, allowed: Sequence[str]) -> list[str]:
        """The rows of --rows, or of ``sweep.rows``."""
        noun = "row of the study"
        if self.options.rows is not None:
            return self.check.existing_in_list("--rows", self.options.rows, allowed, noun)
        typed = self.settings.sweep.rows if self._is_typed("sweep.rows=") else ()
        return self.check.existing("sweep.rows", typed, allowed, noun)

    def _is_typed(self, override: str) -> bool:
        return bool(chosen(list(self.overrides), (override,)))

    def _with_metrics(self, study: Study) -> Study:
        """The study with only the chosen metrics, on the chosen set."""
        set_name = self.options.set
        typed_metrics = self.options.metric or []
        if set_name is None and not typed_metrics:
            return study
        card = study.task
        measured_sets = study.measured_sets()
        allowed = [metric.name for metric in card.metrics]
        metrics = self.check.existing("--metric", typed_metrics, allowed, "metric of the study")
        if set_name is not None and not self.check.scored_set(set_name, card, measured_sets):
            return study
        if set_name is not None and not typed_metrics:
            on_set = measured_sets.get(set_name)
            measured = [
                metric for metric in card.metrics if on_set is None or metric.name in on_set
            ]
            tabled = [metric.name for metric in measured if metric.tabled]
            metrics = tabled or [metric.name for metric in measured]
        set_of_metric = {metric.name: set_name or metric.set for metric in card.metrics}
        for metric in metrics:
            metric_set = set_of_metric[metric]
            if measured_sets and metric not in measured_sets.get(metric_set, []):
                self.check.problems.append(_not_measured(metric, metric_set, measured_sets))
        return study_of_metrics(study, metrics, set_name)


def _not_measured(metric: str, set_name: str, sets: Mapping[str, Sequence[str]]) -> Problem:
    """The refusal of a metric that the set lacks: which sets have it, or what the set has."""
    sets_with_metric = [name for name, metrics in sets.items() if metric in metrics]
    if sets_with_metric:
        alternative = f"sets with it: {', '.join(sets_with_metric)}"
    else:
        alternative = f"{set_name} has {', '.join(sets.get(set_name, ()))}"
    return Problem("--metric", f"{metric} was not measured on {set_name}", alternative)
