"""The study itself in MLflow: a run of its own, with the table, the report and its figures."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from tracking.findings import find, with_tested, with_verdicts
from tracking.rows import BASE, TableRow, table
from tracking.study import Study
from tracking.table import to_csv, to_markdown
from tracking.tracker import RunSpec

STUDY_TAG = "study"  # only the study's own run has it, and only trials have `sweep.id`


def study_files(study: Study) -> dict[str, bytes]:
    """The files of the study's run, by their paths: those of `ablate table`, and those of `ablate report` if it is
    complete."""
    rows = table(study)
    return {**_tables(study, rows), **(_report(study) if _complete(study, rows) else {})}


def _tables(study: Study, rows: Sequence[TableRow]) -> dict[str, bytes]:
    card = study.task
    findings = find(study, rows, BASE, card.headline)
    rows = with_tested(rows, card, findings)
    all_of_it = with_verdicts(findings, card, rows)
    return {
        "table.md": to_markdown(study, rows, findings=findings).encode(),
        "table.csv": to_csv(study, rows, findings=all_of_it).encode(),
    }


def _report(study: Study) -> Mapping[str, bytes]:
    from tracking.report.page import page  # matplotlib, only where something is drawn
    from tracking.report.written import whole_content

    content = whole_content(study)
    figures = {f"figures/{figure.name}.svg": figure.content("svg") for figure in content.figures.all}
    return {"report.html": page(content).encode(), **figures}


def _complete(study: Study, rows: Sequence[TableRow]) -> bool:
    """Whether every trial has ended, and there is something to compare: drawing takes seconds of CPU."""
    if sum(row.seeds > 0 for row in rows) < 2:
        return False
    return all(study.trial_folder(trial).state(trial.key) in ("finished", "failed") for trial in study.trials)


def study_run(study: Study) -> RunSpec:
    """The run of the study itself."""
    return RunSpec("study", first_asked_ms(study), {STUDY_TAG: study.name}, (STUDY_TAG,))


def first_asked_ms(study: Study) -> int:
    """When the study was first asked for; 0 if that is not recorded."""
    try:
        return round(datetime.fromisoformat(study.asked[0]["ts"]).timestamp() * 1000)
    except (IndexError, ValueError):
        return 0
