"""The verb ``publish``: a study's finished trials as small files, with its table, its report and
its figures."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sweeps.console import OUT
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.command import OverrideList, guarded, print_notices
from tracking.published_study import copy_finished, is_another, is_published, size_of
from tracking.study import Study, read_study

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

MEGABYTE = 1e6
Target = Annotated[Path, typer.Option("--to", help="The folder of published studies.")]


@guarded
def publish(overrides: OverrideList = None, to: Target = Path("studies")) -> None:
    """Copy a study's finished trials without checkpoints or texts, and write table, report and
    figures beside them.

    Repeat it when more trials have finished. With paths.runs=studies only table, report and figures
    are written.
    """
    from sweeps.planning.studies.named_study import study_to_read

    taken = study_to_read(overrides)
    print_notices(taken.notices)
    study = taken.study
    folder = to / taken.study.name
    if folder.resolve() != study.folder.resolve():
        _refuse_another(study, folder)
        _copy(study, folder)
    elif not is_published(folder):
        fault = f"is {to}, where the study itself lies"
        raise RefusedError([Problem("--to", fault, "must be another folder, such as studies")])
    names = write_pages(read_study(folder), taken.settings)
    size = size_of(folder) / MEGABYTE
    OUT.print(f"Wrote {', '.join(names)}", soft_wrap=True)
    OUT.print(f"[bold]{escape(str(folder))}[/] has {size:.1f} MB", soft_wrap=True)


def write_pages(study: Study, settings: "Settings") -> list[str]:
    """Write table, report and figures into a published study; returns the names of the files.

    They follow from its files alone: no text of a corpus, no time and no place of this machine is
    in them. Without all locked trials, no test is in them.
    """
    from sweeps.verbs.results import Choice
    from tracking.files import write_atomic
    from tracking.report.page import Content, page
    from tracking.statistics.withheld_findings import withheld
    from tracking.study_lock import missing_trials
    from tracking.table.layout import written

    table = Choice(study, settings, []).table()
    missing = missing_trials(study)
    note = ""
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        why = f"{len(missing)} of {len(study.trials)} trials {verb} missing"
        note = f"{why}: no test is published yet."
        table = replace(table, findings=withheld(table.findings, why))
    content = Content(table)
    pages = {f"table.{kind}": written(kind, table).encode() for kind in ("md", "tex")}
    pages["report.html"] = page(content).encode()
    figures = {f"{figure.name}.svg": figure.svg_with_text(note) for figure in content.figures}
    for path in study.folder.glob("*.svg"):
        if path.name not in figures:
            path.unlink()
    for name, text in (pages | figures).items():
        write_atomic(study.folder / name, text)
    return [*pages, f"{len(figures)} figures"]


def _copy(study: Study, folder: Path) -> None:
    publication = copy_finished(study, folder)
    trials = f"{publication.finished} of {len(study.trials)} trials are finished"
    OUT.print(
        f"{escape(study.name)}: {trials}; {len(publication.changed)} of them are new or changed",
        soft_wrap=True,
    )


def _refuse_another(study: Study, folder: Path) -> None:
    """Raises RefusedError if another study of this name is published there."""
    if is_another(study, folder):
        fault = f"has another study named {study.name}"
        allowed = "rename yours with `allelse rename`, or choose another folder"
        raise RefusedError([Problem("--to", fault, allowed)])
