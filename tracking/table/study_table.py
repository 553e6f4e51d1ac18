"""A study's table as a reader asked for it: the shown rows, the findings of all rows, and the
view."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracking.card import Card, Metric
from tracking.statistics.study_findings import NONE, StudyFindings, find
from tracking.statistics.table_row import BASE, TableRow
from tracking.statistics.table_rows import table as table_of
from tracking.study import Study


@dataclass(frozen=True)
class View:
    """Empty ``rows`` and ``columns`` mean all rows, and the columns of the format."""

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # as CSV names them
    sort: str | None = None  # such a name; the best value of a metric comes first
    best: bool = False  # whether the best values are bold
    intervals: bool = False  # whether differences have their intervals
    seeds: tuple[int, ...] = ()  # the chosen ones, if not all
    verdicts: bool = False  # whether differences are compared with the published ones
    notes: bool = True  # whether a row's note is below its change
    names: bool = False  # whether a column names the rows as commands do
    short: bool | None = None  # whether the caption is that of a paper; None: the format decides
    caption: str | None = None  # instead of ours
    label: str = ""  # of LaTeX

    @property
    def named(self) -> list[str]:
        """The chosen columns, after the row's name; [] without a choice."""
        return ["row", *(name for name in self.columns if name != "row")] if self.columns else []


PLAIN_VIEW = View()


@dataclass(frozen=True)
class StudyTable:
    """The rows of a study that a reader sees, and the findings of all its rows."""

    study: Study
    rows: Sequence[TableRow]
    findings: StudyFindings = NONE
    view: View = PLAIN_VIEW

    @property
    def card(self) -> Card:
        return self.study.task


def whole_table(study: Study, reports_of: Metric | None = None) -> StudyTable:
    """All rows, with differences from base, and with the best reports of this metric."""
    rows = table_of(study)
    return StudyTable(study, rows, find(study, rows, BASE, reports_of))
