"""The verb ``report``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sweeps.commands.arguments import OverrideList
from sweeps.commands.guarded import guarded
from sweeps.commands.taken import taken_study
from sweeps.console import OUT, next_verb
from sweeps.planning.naming import SELECTING, looking

Output = Annotated[Path | None, typer.Option("--output", help="Write the page here; by default next to study.json.")]
FigureFolder = Annotated[Path | None, typer.Option("--figures", help="Write the figures here, as SVG, PDF and PNG.")]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Leave figures out: faster for a large study.")]


@guarded
def report(
    overrides: OverrideList = None, output: Output = None, figures: FigureFolder = None, no_figures: NoFigures = False
) -> None:
    """Write the study as one page of HTML: table, figures, costs, samples. Opens without a network."""
    from sweeps.chosen_table import Asked, chosen_table
    from sweeps.reporting import refuse_places, texts_of

    refuse_places(output, figures, no_figures)
    study, settings = taken_study(overrides, SELECTING)
    page_path = output or study.folder / "report.html"
    refuse_places(page_path)
    made = chosen_table(study, settings, overrides or [], Asked())
    from tracking.files import write_atomic
    from tracking.report.page import page
    from tracking.report.written import content_of, figure_files, write_figures
    from tracking.statistics.findings import with_verdicts

    findings = with_verdicts(made.findings, made.study.task, made.all_rows)
    content = content_of(made.study, made.rows, findings, texts_of(study, settings), drawn=not no_figures)
    if figures is not None:
        files = figure_files(content.figures)
        write_figures(figures, files)
        OUT.print(f"Wrote {len(files)} figures to {escape(str(figures))}", soft_wrap=True)
    write_atomic(page_path, page(content))
    OUT.print(f"Wrote [bold]{escape(str(page_path))}[/]; open it in a browser", soft_wrap=True)
    next_verb("ui", looking(study.folder, overrides))
