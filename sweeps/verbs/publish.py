"""The verb ``publish``: a study's finished trials as small files, with table, report, figures."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sweeps.console import OUT, print_line
from sweeps.problems import refusal
from sweeps.verbs.command import OverrideList, guarded, print_notices
from tracking.published_study import copy_finished, is_another, is_published, size_of
from tracking.study import Study, read_study
from tracking.table.resumptions import publish_check

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

MEGABYTE = 1e6
Target = Annotated[Path, typer.Option("--to", help="Folder for published studies.")]


@guarded
def publish(overrides: OverrideList = None, to: Target = Path("studies")) -> None:
    """Copy a study's finished trials, without checkpoints and with ten lines of each output. Add
    table, report and figures.

    Run it again when more trials have finished. With paths.runs=studies, it only writes table,
    report and figures.
    """
    from sweeps.planning.studies.named_study import study_to_read

    selection = study_to_read(overrides)
    print_notices(selection.notices)
    study = selection.study
    folder = to / study.name
    if folder.resolve() != study.folder.resolve():
        _refuse_another(study, folder)
        _copy(study, folder)
    elif not is_published(folder):
        fault = f"is {to}, which contains the study itself"
        raise refusal("--to", fault, "must be another folder, such as studies")
    names = write_pages(read_study(folder), selection.settings)
    size = size_of(folder) / MEGABYTE
    print_line(OUT, f"Wrote {', '.join(names)}")
    OUT.print(f"[bold]{escape(str(folder))}[/] has {size:.1f} MB", soft_wrap=True)


def write_pages(study: Study, settings: "Settings") -> list[str]:
    """Write table, report and figures into a published study. Returns the names of the files.

    They follow only from the study's files, and hold no text of a corpus. Until all locked trials
    have finished, they hold no test.
    """
    from sweeps.verbs.choice import Choice
    from tracking.files import write_atomic
    from tracking.report.page import Content, page
    from tracking.study_lock import missing_trials
    from tracking.table.layout import table_text

    table = Choice(study, settings, []).table()
    missing = missing_trials(study)
    note = ""
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        reason = f"{len(missing)} of {len(study.trials)} trials {verb} missing"
        note = f"{reason}: no test is published yet."
        table = replace(table, findings=table.findings.withheld(reason))
    content = Content(table)
    pages = {
        "table.md": table_text("md", table).encode(),
        "table.tex": table_text("tex", table).encode(),
        "report.html": page(content).encode(),
    }
    figures = {f"{figure.name}.svg": figure.svg_with_text(note) for figure in content.figures}
    for path in study.folder.glob("*.svg"):
        if path.name not in figures:
            path.unlink()
    for name, text in (pages | figures).items():
        write_atomic(study.folder / name, text)
    return [*pages, f"{len(figures)} figures"]


def _copy(study: Study, folder: Path) -> None:
    """Copy the finished trials, and print how many."""
    publication = copy_finished(study, folder)
    publish_check(study, folder)
    finished = f"{publication.finished} of {len(study.trials)} trials are finished"
    changed = f"{len(publication.changed)} new or changed"
    print_line(OUT, f"{study.name}: {finished}, {changed}")


def _refuse_another(study: Study, folder: Path) -> None:
    """Raises RefusedError if the folder holds another study of this name."""
    if is_another(study, folder):
        fault = f"has another study named {study.name}"
        allowed = "rename yours with `allelse rename`, or choose another folder"
        raise refusal("--to", fault, allowed)
