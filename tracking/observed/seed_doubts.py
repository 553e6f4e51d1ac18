"""Doubts about seeds: runs that are there twice, seeds that are missing, seeds that look chosen,
and runs that no table counts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tracking.observed.columns import (
    BEST_WORDS,
    CHOSEN_IDENTITIES,
    IDENTITIES,
    MACHINE,
    TIMES,
    is_called,
    is_shared,
    plain_name,
    words_of,
)
from tracking.observed.doubt import Doubt, named
from tracking.observed.roles import Roles
from tracking.observed.row_doubts import strays, usual_seeds
from tracking.observed.rows import BASE, ObservedRow, ObservedRows
from tracking.observed.runs import LeftOutRun, ObservedRun, names_of
from tracking.observed.source_table import SourceTable, value_text
from tracking.words import count_of, listed, plural

SPREAD = 4
"""Seeds further apart than this many times their number weren't counted up from the first."""
DIGITS = 5
"""Scores with this many digits aren't equal by chance."""


def repeated_runs(table: SourceTable, rows: ObservedRows, roles: Roles) -> Iterator[Doubt]:
    """Seeds that a row has twice; then runs of other seeds with the same scores."""
    for row in rows.rows:
        for seed in dict.fromkeys(run.seed for run in row.repeated):
            runs = [run for run in row.every_run if run.seed == seed]
            names = names_of(runs)
            score = roles.metrics[0]
            values = [_score_text(run, score.column) for run in runs]
            differ = len({*values}) > 1
            result = f"{score.name} {listed(values)}" if differ else f"all {score.name} {values[0]}"
            text = (
                f"{row.change} has seed {seed} {len(runs)} times ({result}); "
                f"the table uses {_first_words(runs)}."
            )
            if columns := _columns_that_split(table, roles, [runs]):
                text = f"{text[:-1]}; these runs differ in {columns}."
            yield Doubt("repeated-runs", text, names, (row.name,))
    yield from _same_scores(rows, roles)


def _columns_that_split(
    table: SourceTable, roles: Roles, groups: Sequence[Sequence[ObservedRun]]
) -> str:
    """Columns that are no settings, but look like some, in which runs of a group differ."""
    never_settings = (IDENTITIES - CHOSEN_IDENTITIES) | MACHINE | TIMES
    columns = [
        column
        for column in roles.columns("measured", "unused", "words")
        if not is_called(column, never_settings) and is_shared(table, column)
    ]
    names = [plain_name(column) for column in columns if _differs_within(table, column, groups)]
    verb = "is no setting" if len(names) == 1 else "are no settings"
    return f"{listed(names)}, which {verb}" if names else ""


def _first_words(runs: Sequence[ObservedRun]) -> str:
    names = {run.name for run in runs}
    return "the first one" if len(names) < len(runs) else f"the first one, {runs[0].name}"


def _score_text(run: ObservedRun, column: str) -> str:
    return value_text(run.scores.get(column))


def _same_scores(rows: ObservedRows, roles: Roles) -> Iterator[Doubt]:
    """Different runs that agree in every score to the last digit."""
    runs_by_scores: dict[tuple[float | None, ...], list[tuple[ObservedRow, ObservedRun]]] = {}
    for row in rows.rows:
        for run in row.runs:
            scores = tuple(run.scores.get(metric.column) for metric in roles.metrics)
            if any(_has_many_digits(score) for score in scores):
                runs_by_scores.setdefault(scores, []).append((row, run))
    for pairs in runs_by_scores.values():
        if len(pairs) > 1:
            names = tuple(run.name for _, run in pairs)
            score = roles.metrics[0]
            value = _score_text(pairs[0][1], score.column)
            text = f"{listed(names)} have the same {score.name}, {value}, to the last digit."
            changed = tuple(dict.fromkeys(row.name for row, _ in pairs))
            yield Doubt("repeated-runs", text, names, changed)


def _has_many_digits(score: float | None) -> bool:
    digits = [] if score is None else [sign for sign in repr(score) if sign.isdigit()]
    return len("".join(digits).strip("0")) >= DIGITS


def missing_seeds(
    table: SourceTable, rows: ObservedRows, roles: Roles, left_out: Sequence[LeftOutRun]
) -> Iterator[Doubt]:
    """Rows without seeds that most rows have; without such seeds, rows with fewer of them."""
    if rows.numbered:
        names = names_of(rows.numbered)
        verb = "has" if len(names) == 1 else "have"
        reason = f" that can be read in {plain_name(roles.seed)}" if roles.seed else ""
        text = f"{count_of(len(names), 'run')} {verb} no seed{reason}: the table numbers them."
        if columns := _columns_that_split(table, roles, [row.every_run for row in rows.rows]):
            text = f"{text[:-1]}; runs of one row differ in {columns}."
        yield Doubt("missing-seeds", text, names, ())
        return
    usual = usual_seeds(rows)
    explained = {row.name for pair in strays(rows) for row in pair}
    most = Counter(len(row.runs) for row in rows.rows).most_common(1)[0][0]
    for row in rows.rows:
        if row.name in explained:
            continue
        absent = {run.run.seed for run in left_out if _is_of(run.run, row)}
        missing = [seed for seed in usual if seed not in row.seeds and seed not in absent]
        names = names_of(row.runs)
        if missing:
            noun = plural("seed", len(missing))
            text = f"{row.change} has no {noun} {listed([*map(str, missing)])}; most rows do."
            yield Doubt("missing-seeds", text, names, (row.name,))
        elif not usual and len(row.runs) < most:
            text = f"{row.change} has {len(row.runs)} of {most} seeds."
            yield Doubt("missing-seeds", text, names, (row.name,))


def _is_of(run: ObservedRun, row: ObservedRow) -> bool:
    """Whether a run that was left out would belong to this row."""
    if run.row:
        return run.row in {kept.row for kept in row.runs}
    return all(run.settings[column] == value for column, value in row.settings.items())


def chosen_seeds(rows: ObservedRows, left_out: Sequence[LeftOutRun]) -> Iterator[Doubt]:
    """Seeds that only one row has, gaps in the count, and names that say "best"."""
    yield from _named_best(rows)
    usual = [] if rows.numbered else usual_seeds(rows)
    if len(usual) < 2:
        return
    explained = {stray.name for stray, _ in strays(rows)}
    for row in rows.rows:
        own = [seed for seed in row.seeds if seed not in usual]
        others = {seed for another in rows.rows if another is not row for seed in another.seeds}
        own = [seed for seed in own if seed not in others]
        is_larger_base = row.name == BASE and {*usual} <= {*row.seeds}
        if own and not is_larger_base and row.name not in explained:
            noun = plural("seed", len(own))
            names = names_of([run for run in row.runs if run.seed in own])
            text = f"{row.change} has {noun} {listed([*map(str, own)])}, which no other row has."
            yield Doubt("chosen-seeds", text, names, (row.name,))
    failed = {run.run.seed for run in left_out}
    gaps = [seed for seed in range(usual[0] + 1, usual[-1]) if seed not in usual]
    gaps = [seed for seed in gaps if seed not in failed]
    if gaps and _were_counted(usual):
        seeds = listed([*map(str, usual)])
        text = f"Seeds {seeds} leave out {named([*map(str, gaps)])}: were those runs dropped?"
        yield Doubt("chosen-seeds", text, (), tuple(row.name for row in rows.rows))


def _were_counted(seeds: Sequence[int]) -> bool:
    """Whether they look like 1, 2, 3 with some left out, and not like a list such as 10, 20, 30."""
    distances = {later - earlier for earlier, later in pairwise(seeds)}
    is_near = seeds[-1] - seeds[0] < SPREAD * len(seeds)
    return len(distances) > 1 and is_near and (1 in distances or seeds[0] <= 1)


def _named_best(rows: ObservedRows) -> Iterator[Doubt]:
    """Runs whose names say that they were chosen among others."""
    for row in rows.rows:
        runs = [run for run in row.every_run if BEST_WORDS & {*words_of(run.name)} & {"best"}]
        if runs and len(runs) < sum(len(another.runs) for another in rows.rows):
            names = names_of(runs)
            text = f'{row.change} has runs called "best": {listed(names)}.'
            yield Doubt("chosen-seeds", text, names, (row.name,))


def runs_without_a_score(rows: ObservedRows, roles: Roles) -> Iterator[Doubt]:
    """Runs that count, but lack one of several metrics: their rows have no mean of it."""
    for metric in roles.metrics:
        lacking = {
            row.name: [run for run in row.runs if metric.column not in run.scores]
            for row in rows.rows
        }
        names = names_of([run for runs in lacking.values() for run in runs])
        if names:
            affected = tuple(name for name, runs in lacking.items() if runs)
            text = (
                f"{count_of(len(names), 'run')} without {metric.name}: {named(names)}. "
                f"{listed(affected)} {'has' if len(affected) == 1 else 'have'} no mean of it."
            )
            yield Doubt("left-out-runs", text, names, affected)


def left_out_runs(left_out: Sequence[LeftOutRun]) -> Iterator[Doubt]:
    """One for each reason."""
    for why in dict.fromkeys(run.why for run in left_out):
        names = tuple(run.run.name for run in left_out if run.why == why)
        text = f"{count_of(len(names), 'run')} left out ({why}): {named(names)}."
        yield Doubt("left-out-runs", text, names, ())


def _differs_within(
    table: SourceTable, column: str, groups: Sequence[Sequence[ObservedRun]]
) -> bool:
    """Whether the runs of any group have several values in this column."""
    for runs in groups:
        values = {table.lines[run.place].get(column) for run in runs}
        if len(values) > 1:
            return True
    return False
