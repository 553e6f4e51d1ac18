"""The verb ``table``."""

import re
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise
from typing import Annotated

import typer

from sweeps.console import OUT, next_verb
from sweeps.planning.studies.study_overrides import looking
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.choice import SELECTING_RECORDED, Choice, TableOptions
from sweeps.verbs.command import OverrideList, guarded, taken_study
from sweeps.verbs.names import NameCheck, split_names
from tracking.observed.record import is_observed
from tracking.study import Study
from tracking.table.columns import StudyTable
from tracking.words import listed

LABEL = re.compile(r"[A-Za-z0-9:._/+-]+")
"""What LaTeX takes as a label in any document."""


class TableFormat(StrEnum):
    """The formats that `allelse table` prints."""

    md = "md"
    csv = "csv"
    json = "json"
    tex = "tex"
    html = "html"


NUMBER = re.compile(r"-?\d+(\.\d+)?")
TAKEN_WITH_BY = ("--set", "--metric", "--base", "--rows")
FOR_PROGRAMS = (TableFormat.csv, TableFormat.json)

MetricNames = Annotated[
    list[str] | None, typer.Option("--metric", help="Show this metric. Repeat it for several.")
]
SetName = Annotated[
    str | None, typer.Option("--set", help="Show the scores on this set, such as test.")
]
Base = Annotated[str | None, typer.Option("--base", help="Show differences from this row.")]
ShownRows = Annotated[str | None, typer.Option("--rows", help="Show these rows, such as base,big.")]
Columns = Annotated[
    str | None, typer.Option("--columns", help="Show these columns, by their names in CSV.")
]
Sort = Annotated[
    str | None,
    typer.Option("--sort", help="Sort by this column. The best value of a metric comes first."),
]
Best = Annotated[bool, typer.Option("--best", help="Print the best values in bold.")]
Intervals = Annotated[
    bool, typer.Option("--intervals", help="Show the 95 % interval of each difference.")
]
Verdicts = Annotated[
    bool,
    typer.Option("--verdict", help="Show whether each difference agrees with the published one."),
]
ChosenBy = Annotated[
    str | None,
    typer.Option(
        "--chosen", help="Among rows that score the same weights, show the best by this metric."
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="NAME[:ENDS]",
        help="Group samples by a number, such as length. length:10,20 sets the groups' ends.",
    ),
]
WithNames = Annotated[
    bool, typer.Option("--row/--no-row", help="Show the name of each row, as commands take it.")
]
Short = Annotated[
    bool | None,
    typer.Option(
        "--short/--long",
        help="A short caption for a paper, or a full one. The default is short only for tex.",
    ),
]
Caption = Annotated[str | None, typer.Option("--caption", help="Use this caption instead.")]
Label = Annotated[
    str | None, typer.Option("--label", help="The label in LaTeX, such as tab:ablation.")
]
AsFormat = Annotated[
    TableFormat | None, typer.Option("--format", help="Print md, csv, json, tex or html.")
]


@guarded
def table(
    overrides: OverrideList = None,
    as_format: AsFormat = None,
    set_name: SetName = None,
    metrics: MetricNames = None,
    base: Base = None,
    rows: ShownRows = None,
    columns: Columns = None,
    sort: Sort = None,
    best: Best = False,
    intervals: Intervals = False,
    verdict: Verdicts = False,
    chosen_by: ChosenBy = None,
    by: By = None,
    names: WithNames = False,
    short: Short = None,
    caption: Caption = None,
    label: Label = None,
) -> None:
    """Print the study's table: each row's scores, their difference from base, and its costs."""
    from tracking.table.layout import shown, written

    _refuse_label(label, as_format)
    study, settings = taken_study(overrides, SELECTING_RECORDED)
    options = TableOptions(
        set_name=set_name,
        metrics=metrics or [],
        base=base,
        rows=rows,
        columns=columns,
        sort=sort,
        best=best,
        intervals=intervals,
        verdict=verdict,
    )
    choice = Choice(study, settings, overrides or [], options, as_format in FOR_PROGRAMS)
    if chosen_by is not None:
        _refuse_with_chosen(options, names, short, by)
        seeds_chosen = choice.study_with_chosen_seeds()
        _print_chosen(seeds_chosen, chosen_by, as_format, caption, label or "")
        return
    if by is not None:
        _refuse_with_by(options, names, short)
        _print_by(choice.table(), by, as_format, caption, label or "")
        return
    study_table = choice.table()
    view = replace(study_table.view, names=names, short=short, caption=caption, label=label or "")
    study_table = replace(study_table, view=view)
    if as_format is None:
        OUT.print(shown(study_table, OUT.width))
        _print_next(study, overrides)
    else:
        OUT.file.write(written(as_format, study_table))


def _print_next(study: Study, overrides: list[str] | None) -> None:
    """What to type next. `sync` must send imported runs before a store of ours has them."""
    verb = "report" if is_observed(study.folder) else "ui"
    next_verb(verb, looking(study.folder, overrides))


def _refuse_with_chosen(
    options: TableOptions, names: bool, short: bool | None, by: str | None
) -> None:
    """Raises RefusedError for options that the table of ``--chosen`` does not take."""
    typed = options.typed() if by is None else ["--by", *options.typed()]
    _refuse_typed("--chosen", typed, names, short)


def _refuse_with_by(options: TableOptions, names: bool, short: bool | None) -> None:
    """Raises RefusedError for options that the table of ``--by`` does not take."""
    typed = [name for name in options.typed() if name not in TAKEN_WITH_BY]
    _refuse_typed("--by", typed, names, short)


def _refuse_typed(option: str, typed: Sequence[str], names: bool, short: bool | None) -> None:
    """Raises RefusedError if the table of this option does not take any of the typed ones."""
    if short is not None:
        typed = ["--short", *typed]
    if names:
        typed = ["--row", *typed]
    if typed:
        fault = f"can't be combined with {listed(typed)}: it prints its own table"
        raise RefusedError([Problem(option, fault, "use one")])


def _print_by(
    table: StudyTable, by: str, as_format: TableFormat | None, caption: str | None, label: str
) -> None:
    """Print the table of ``--by``. Raises RefusedError."""
    from tracking.buckets.bucket_scores import bucket_scores
    from tracking.buckets.bucket_table import shown, written
    from tracking.buckets.quantity import UngroupedError

    name, _, ends = by.partition(":")
    cuts = _cuts(by, ends)
    try:
        scores = bucket_scores(table, name, cuts).tested()
    except UngroupedError as error:
        raise RefusedError([Problem("--by", error.fault, error.allowed)]) from None
    if as_format is None:
        for metric_table in shown(scores, OUT.width, caption):
            OUT.print(metric_table)
    else:
        OUT.file.write(written(as_format, scores, caption, label))


def _cuts(by: str, ends: str) -> list[float]:
    """The ends of the buckets. Raises RefusedError if they aren't rising numbers."""
    texts = split_names(ends)
    numbers = [float(text) for text in texts if NUMBER.fullmatch(text)]
    is_rising = all(low < high for low, high in pairwise(numbers))
    if len(numbers) < len(texts) or not is_rising or (":" in by and not texts):
        allowed = "must be a name, or a name with rising numbers, such as length:10,20,30"
        raise RefusedError([Problem("--by", f'is "{by}"', allowed)])
    return numbers


def _print_chosen(
    study: Study, metric_name: str, as_format: TableFormat | None, caption: str | None, label: str
) -> None:
    """Print the table of ``--chosen``. Raises RefusedError."""
    from tracking.table.chosen_table import chosen_table, shown, written

    check = NameCheck()
    metrics = {metric.name: metric for metric in study.task.metrics}
    check.existing("--chosen", [metric_name], list(metrics), "metric of the study")
    if not any(trial.weights for trial in study.trials):
        fault = (
            f"has nothing to choose from: no row of {study.name} only scores another row's weights"
        )
        allowed = "add rows that change only keys for scoring, or leave --chosen out"
        check.problems.append(Problem("--chosen", fault, allowed))
    check.refuse()
    table_of_chosen = chosen_table(study, metrics[metric_name])
    if as_format is None:
        OUT.print(shown(table_of_chosen, OUT.width, caption))
    else:
        OUT.file.write(written(as_format, table_of_chosen, caption, label))


def _refuse_label(label: str | None, as_format: TableFormat | None) -> None:
    """Raises RefusedError for a label that LaTeX can't take, or that no LaTeX shows."""
    if label is None:
        return
    if as_format != TableFormat.tex:
        fix = "add --format tex, or leave it out"
        raise RefusedError([Problem("--label", "is for LaTeX", fix)])
    if not LABEL.fullmatch(label):
        allowed = "must be letters, digits and any of : . _ / + -, such as tab:ablation"
        raise RefusedError([Problem("--label", f'is "{label}"', allowed)])
