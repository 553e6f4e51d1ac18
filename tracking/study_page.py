"""The study itself in MLflow: a run of its own, with the table's files."""

from collections.abc import Sequence
from datetime import datetime

from tracking.rows import TableRow, table
from tracking.study import Study
from tracking.table import to_csv, to_markdown
from tracking.tracker import RunSpec

STUDY_TAG = "study"  # only the study's own run has it, and only trials have `sweep.id`


def study_files(study: Study, rows: Sequence[TableRow] | None = None) -> list[tuple[str, bytes]]:
    """The files of the study, by their paths in its run: every page and figure that is made of the whole study."""
    rows = table(study) if rows is None else rows
    return [("table.md", to_markdown(study, rows).encode()), ("table.csv", to_csv(study, rows).encode())]


def study_run(study: Study) -> RunSpec:
    """The run of the study itself."""
    return RunSpec("study", first_asked_ms(study), {STUDY_TAG: study.name}, (STUDY_TAG,))


def first_asked_ms(study: Study) -> int:
    """When the study was first asked for; 0 if that is not recorded."""
    try:
        return round(datetime.fromisoformat(str(study.asked[0]["ts"])).timestamp() * 1000)
    except (IndexError, KeyError, ValueError):
        return 0
