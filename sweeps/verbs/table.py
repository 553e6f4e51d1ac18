"""The verb ``table``."""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from inspect import Parameter, Signature
from itertools import pairwise
from typing import Any, get_type_hints

from sweeps.console import OUT, next_verb
from sweeps.planning.studies.study_overrides import looking
from sweeps.problems import Problem, refusal
from sweeps.verbs.choice import SELECTING_RECORDED, Choice, TableFormat, TableOptions
from sweeps.verbs.command import OverrideList, guarded, taken_study
from sweeps.verbs.names import NameCheck, split_names
from tracking.observed.record import is_observed
from tracking.study import Study
from tracking.table.study_table import StudyTable
from tracking.words import listed

LABEL = re.compile(r"[A-Za-z0-9:._/+-]+")
"""What LaTeX takes as a label in any document."""
NUMBER = re.compile(r"-?\d+(\.\d+)?")
OF_EACH_TABLE = ("--format", "--caption", "--label")
"""The options that the tables of --chosen and --by take, too."""
OF_BUCKETS = (*OF_EACH_TABLE, "--by", "--set", "--metric", "--base", "--rows")


def _with_options(
    run: Callable[[list[str] | None, TableOptions], None],
) -> Callable[..., None]:
    """The verb as Typer takes it: each field of TableOptions is an option."""
    hints = get_type_hints(TableOptions, include_extras=True)
    overrides = Parameter(
        "overrides", Parameter.KEYWORD_ONLY, default=None, annotation=OverrideList
    )
    options = [
        Parameter(
            option.name,
            Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=hints[option.name],
        )
        for option in fields(TableOptions)
    ]

    def call(overrides: list[str] | None = None, **options: Any) -> None:
        run(overrides, TableOptions(**options))

    call.__name__ = run.__name__
    call.__doc__ = run.__doc__
    call.__signature__ = Signature([overrides, *options])  # type: ignore[attr-defined]
    return call


@guarded
@_with_options
def table(overrides: list[str] | None, options: TableOptions) -> None:
    """Print the study's table: each row's scores, their difference from base, and its costs."""
    from tracking.table.layout import shown, table_text

    _refuse_label(options)
    study, settings = taken_study(overrides, SELECTING_RECORDED)
    choice = Choice(study, settings, overrides or [], options)
    if options.chosen is not None:
        _refuse_beside("--chosen", options, OF_EACH_TABLE)
        _print_chosen(choice.study_with_chosen_seeds(), options)
    elif options.by is not None:
        _refuse_beside("--by", options, OF_BUCKETS)
        _print_by(choice.table(), options)
    elif options.format is None:
        OUT.print(shown(choice.table(), OUT.width))
        _print_next(study, overrides)
    else:
        OUT.file.write(table_text(options.format, choice.table()))


def _print_next(study: Study, overrides: list[str] | None) -> None:
    """What to type next. `sync` must send imported runs before a store of ours has them."""
    verb = "report" if is_observed(study.folder) else "ui"
    next_verb(verb, looking(study.folder, overrides))


def _refuse_beside(option: str, options: TableOptions, allowed: Sequence[str]) -> None:
    """Raises RefusedError if the table of this option does not take any of the typed ones."""
    typed = [name for name in options.typed() if name not in (option, *allowed)]
    if typed:
        fault = f"can't be combined with {listed(typed)}: it prints its own table"
        raise refusal(option, fault, "use one")


def _print_by(table: StudyTable, options: TableOptions) -> None:
    """Print the table of ``--by``. Raises RefusedError."""
    from tracking.buckets.bucket_scores import bucket_scores
    from tracking.buckets.bucket_table import shown, table_text
    from tracking.buckets.quantity import UngroupedError

    by = options.by or ""
    name, _, ends = by.partition(":")
    cuts = _cuts(by, ends)
    try:
        scores = bucket_scores(table, name, cuts).tested()
    except UngroupedError as error:
        raise refusal("--by", error.fault, error.allowed) from None
    if options.format is None:
        for metric_table in shown(scores, OUT.width, options.caption):
            OUT.print(metric_table)
    else:
        OUT.file.write(table_text(options.format, scores, options.caption, options.label or ""))


def _cuts(by: str, ends: str) -> list[float]:
    """The ends of the buckets. Raises RefusedError if they aren't rising numbers."""
    texts = split_names(ends)
    numbers = [float(text) for text in texts if NUMBER.fullmatch(text)]
    is_rising = all(low < high for low, high in pairwise(numbers))
    if len(numbers) < len(texts) or not is_rising or (":" in by and not texts):
        allowed = "must be a name, or a name with rising numbers, such as length:10,20,30"
        raise refusal("--by", f'is "{by}"', allowed)
    return numbers


def _print_chosen(study: Study, options: TableOptions) -> None:
    """Print the table of ``--chosen``. Raises RefusedError."""
    from tracking.table.chosen_table import chosen_table, shown, table_text

    check = NameCheck()
    name = options.chosen or ""
    metrics = {metric.name: metric for metric in study.task.metrics}
    check.existing("--chosen", [name], list(metrics), "metric of the study")
    if not any(trial.weights for trial in study.trials):
        fault = (
            f"has nothing to choose from: no row of {study.name} only scores another row's weights"
        )
        allowed = "add rows that change only keys for scoring, or leave --chosen out"
        check.problems.append(Problem("--chosen", fault, allowed))
    check.refuse()
    chosen = chosen_table(study, metrics[name])
    if options.format is None:
        OUT.print(shown(chosen, OUT.width, options.caption))
    else:
        OUT.file.write(table_text(options.format, chosen, options.caption, options.label or ""))


def _refuse_label(options: TableOptions) -> None:
    """Raises RefusedError for a label that LaTeX can't take, or that no LaTeX shows."""
    label = options.label
    if label is None:
        return
    if options.format != TableFormat.tex:
        raise refusal("--label", "is for LaTeX", "add --format tex, or leave it out")
    if not LABEL.fullmatch(label):
        allowed = "must be letters, digits and any of : . _ / + -, such as tab:ablation"
        raise refusal("--label", f'is "{label}"', allowed)
