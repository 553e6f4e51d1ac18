"""The verb that compares two trials, rows or studies: ``compare``."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sweeps.commands.arguments import Json
from sweeps.commands.guarded import guarded
from sweeps.console import ERR, OUT, next_verb
from sweeps.planning.naming import looking

Names = Annotated[list[str], typer.Argument(metavar="A B [KEY=VALUE …]", help="Two trials, rows or studies.")]
OfSet = Annotated[str | None, typer.Option("--set", help="Scores of this set; by default each metric's own.")]
OfMetric = Annotated[str | None, typer.Option("--metric", help="Only this metric, such as the table's first.")]


@guarded
def compare(arguments: Names, set_name: OfSet = None, metric: OfMetric = None, as_json: Json = False) -> None:
    """Compare two trials, rows or studies: settings, tests over seeds and samples, the samples that differ most."""
    from sweeps.comparing.sides import by_output, chosen_metrics, families, named_sides
    from sweeps.comparing.texts import with_texts

    overrides = [text for text in arguments if "=" in text]
    sides = named_sides([text for text in arguments if "=" not in text], overrides)
    metrics = chosen_metrics(sides, metric, set_name)
    from sweeps.comparing import shown
    from tracking.statistics.compared import compared, differing

    found = [compared(*pair, metrics, set_name, families(*pair, metrics, set_name)) for pair in sides.pairs]
    samples = differing(*sides.pairs[0], by_output(metrics), set_name)
    samples = with_texts(samples, sides.pairs[0], Path(sides.settings.paths.data))
    if as_json:
        print(json.dumps(shown.to_json(found, samples, sides.only), indent=1, ensure_ascii=False))
        return
    for notice in sides.notices:
        ERR.print(escape(notice), style="dim", soft_wrap=True)
    for part in shown.shown(found, samples, sides.only if sides.of_studies else None):
        OUT.print(part)
    for line in shown.notes(found):
        OUT.print(line, style="dim", soft_wrap=True)
    next_verb("table", looking(sides.first.study.folder, overrides))
