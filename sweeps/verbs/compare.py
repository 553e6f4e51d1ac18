"""Two trials, rows or studies compared, for a terminal and as JSON: the work of the verb
``compare``."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sweeps.console import OUT, next_verb, print_json
from sweeps.planning.studies.advice import must_finish
from sweeps.planning.studies.known_studies import study_names
from sweeps.planning.studies.named_study import study_to_read
from sweeps.planning.studies.study_overrides import looking
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.command import Checked, Named, meant, print_notices, rows_of, unfinished, unknown
from sweeps.verbs.texts import with_texts
from tracking.card import TESTED, Metric
from tracking.observed.record import observed_line
from tracking.statistics.comparison import (
    FIRST,
    SECOND,
    Compared,
    Differing,
    MetricCompared,
    SampleCompared,
    Side,
    SidePair,
    compared,
    differing,
)
from tracking.statistics.family import RowTest
from tracking.statistics.finding import DRAWS, MODERATED_ROWS
from tracking.statistics.rows import BASE
from tracking.statistics.samples import SampleTest
from tracking.study import Study, read_study
from tracking.study_lock import LOCK_FILE, Output, lock_line
from tracking.words import number, plural, signed

SIDES_KEY = "compare"
ALLOWED = (
    "must be a trial, a row, STUDY/TRIAL, STUDY/ROW, a study, or the folder of a study or a trial"
)
LOWEST_P = 0.001
NO_BREAK = "\N{NO-BREAK SPACE}"


def compare(
    names: list[str], overrides: list[str], set_name: str | None, metric: str | None, as_json: bool
) -> None:
    """Print how the two that are named differ. Raises RefusedError."""
    if len(names) != 2:
        only = "only " if len(names) == 1 else ""
        named = f"names {only}{', '.join(names)}" if names else "is missing"
        raise RefusedError(
            [Problem(SIDES_KEY, named, "must be two trials, two rows or two studies")]
        )
    taken = study_to_read(overrides)
    first, second = _named(names, taken.study, Path(taken.settings.paths.runs))
    if any(each.study.folder == taken.study.folder and each.row for each in (first, second)):
        print_notices(taken.notices)
    pairs = _pairs(first, second)
    of_studies = first.row is None
    metrics = _chosen_metrics(pairs, metric, set_name, of_studies)
    each = compared(pairs, metrics, set_name)
    samples = differing(*pairs[0], _by_output(metrics), set_name)
    samples = with_texts(samples, pairs[0], Path(taken.settings.paths.data))
    shared = {side.row for side, _ in pairs}
    left_out = [
        [row for row in rows_of(named.study) if row not in shared] * of_studies
        for named in (first, second)
    ]
    lock_texts = _lock_lines(each)
    if as_json:
        print_json(_json(each, samples, left_out) | ({"locks": lock_texts} if lock_texts else {}))
        return
    for part in _shown(each, samples, left_out, of_studies):
        OUT.print(part)
    for line in [*_notes(each), *lock_texts]:
        OUT.print(line, style="dim", soft_wrap=True)
    next_verb("table", looking(first.study.folder, overrides))


def _named(names: Sequence[str], here: Study, runs: Path) -> tuple[Named, Named]:
    """What the two names mean. Raises RefusedError with every problem."""
    first, second = (meant(name, here, runs) for name in names)
    if first is None or second is None:
        unmeant = dict.fromkeys(
            name for name, found in zip(names, (first, second), strict=True) if found is None
        )
        raise RefusedError(_unknown(name, here, runs) for name in unmeant)
    if problem := _mismatch(first, second):
        raise RefusedError([problem])
    return first, second


def _unknown(name: str, here: Study, runs: Path) -> Problem:
    """With the rows of its study, if the name holds one that is known."""
    of = meant(name.rpartition("/")[0], None, runs) if "/" in name else None
    return unknown(SIDES_KEY, name, of.study if of else here, "rows", ALLOWED, study_names(runs))


def _mismatch(first: Named, second: Named) -> Problem | None:
    """Why the two cannot be compared, whatever they hold."""
    if first.study.folder == second.study.folder and first.trials == second.trials:
        return Problem(
            SIDES_KEY,
            f"are the same: {first.name}",
            "must be two different trials, rows or studies",
        )
    if (first.row is None) != (second.row is None):
        whole, part = (first, second) if first.row is None else (second, first)
        found = f"are a whole study, {whole.name}, and a row or trial, {part.name}"
        return Problem(
            SIDES_KEY, found, "compare two studies, or write STUDY/ROW", f"{whole.name}/{part.row}"
        )
    if first.study.task.name != second.study.task.name:
        found = f"belong to different tasks, {first.study.task.name} and {second.study.task.name}"
        return Problem(SIDES_KEY, found, "must belong to one task: metrics differ between tasks")
    return None


def _pairs(first: Named, second: Named) -> list[SidePair]:
    """The finished trials of two trials or rows; of two studies one pair for each row that both
    have finished.

    Raises RefusedError if there are none.
    """
    if first.row is None:
        return _row_pairs(first, second)
    pair = (
        Side.of(first.name, first.study, first.trials),
        Side.of(second.name, second.study, second.trials),
    )
    missing = [named for side, named in zip(pair, (first, second), strict=True) if not side.trials]
    if missing:
        raise RefusedError(
            unfinished(SIDES_KEY, each.name, each.states(), each.study.folder) for each in missing
        )
    return [pair]


def _row_pairs(first: Named, second: Named) -> list[SidePair]:
    rows = [row for row in rows_of(first.study) if row in rows_of(second.study)]
    alike = first.study.name == second.study.name
    sides = [
        [
            Side.of(
                f"{each.name if alike else each.study.name}/{row}", each.study, each.of_row(row)
            )
            for row in rows
        ]
        for each in (first, second)
    ]
    pairs = [(one, other) for one, other in zip(*sides, strict=True) if one.trials and other.trials]
    if not pairs:
        found = f"{first.name} and {second.name} have no finished row in common"
        raise RefusedError([Problem(SIDES_KEY, found, must_finish(first.study.folder))])
    return pairs


def _chosen_metrics(
    pairs: Sequence[SidePair], name: str | None, set_name: str | None, of_studies: bool
) -> list[Metric]:
    """The metrics to compare: the named one, those of the table for two studies, otherwise all.
    Raises RefusedError."""
    card = pairs[0][0].study.task
    checked = Checked()
    results = [result for pair in pairs for side in pair for result in side.results.values()]
    named = checked.one(
        "--metric", name, [metric.name for metric in card.metrics], "metric of the study"
    )
    checked.scored(
        set_name, card, dict.fromkeys(each for result in results for each in result["scores"])
    )
    checked.refuse()
    usual = [metric for metric in card.metrics if metric.tabled or not of_studies]
    return [metric for metric in card.metrics if metric.name == named] or usual


def _by_output(metrics: Sequence[Metric]) -> list[Metric]:
    """Those of the table first, and among them those that most settings for scoring change: they
    score outputs."""

    def settings(metric: Metric) -> float:
        return math.inf if metric.changed_by is None else len(metric.changed_by)

    return sorted(metrics, key=lambda metric: (not metric.tabled, -settings(metric)))


def _shown(
    found: Sequence[Compared], samples: Differing, left_out: Sequence[list[str]], of_studies: bool
) -> Iterator[RenderableType]:
    """Configuration, origin, metrics, samples, each below its heading. ``left_out``: the rows that
    only one study has finished, by study."""
    first, second = (
        side.label.removesuffix(f"/{side.row}") if of_studies else side.label
        for side in found[0].sides
    )
    yield f"[bold]{escape(first)}[/] and [bold]{escape(second)}[/]: differences are {escape(second)} − {escape(first)}"
    if found[0].configuration:
        yield _two_sided("Configuration", found[0], found[0].configuration)
    else:
        yield "\nNo setting differs."
    if found[0].origin:
        yield _two_sided("Packages, machine and code", found[0], found[0].origin)
    if found[0].code:
        yield f"[bold]Code[/]: from {escape(found[0].sides[0].label)} to {escape(found[0].sides[1].label)}"
        yield Text(
            "\n".join(found[0].code)
        )  # without secrets already; the console would mask names, too
    yield _metrics_table(found, (first, second), of_studies)
    for name, rows in zip((first, second), left_out, strict=True):
        if rows:
            yield f"[dim]Not finished in both studies, so not compared: {escape(', '.join(rows))} of {escape(name)}[/]"
    yield from _samples(found[0], samples)
    yield ""


def _titled(title: str) -> Table:
    return Table(box=box.SIMPLE_HEAD, title=escape(title), title_justify="left", title_style="bold")


def _two_sided(title: str, compared: Compared, differing: Mapping[str, tuple[Any, Any]]) -> Table:
    table = _titled(title)
    table.add_column("key", no_wrap=True)
    for side in compared.sides:
        table.add_column(escape(side.label), overflow="fold")
    for key, values in differing.items():
        table.add_row(
            escape(key), *("–" if value is None else escape(str(value)) for value in values)
        )
    return table


def _metrics_table(found: Sequence[Compared], names: tuple[str, str], of_studies: bool) -> Table:
    """One line per metric; of studies a section per row. The two kinds of chance have a column
    each."""
    metrics = [metric for pair in found for metric in pair.metrics]
    sets = dict.fromkeys(metric.set_name for metric in metrics)
    table = _titled(f"Metrics on {' and '.join(sets)}")
    for name in ("row", "metric")[not of_studies :]:
        table.add_column(name, overflow="fold")
    for place, name in enumerate(names):
        counts = {metric.seeds[place] for metric in metrics}
        seeds = f"\n[dim]seeds: {min(counts)}[/]" if len(counts) == 1 else ""
        table.add_column(escape(name) + seeds, justify="right", overflow="fold")
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("chance over seeds\n[dim]95 % interval, p[/]", no_wrap=True)
    noun = found[0].sides[0].study.task.sample
    table.add_column(f"chance over {noun}s\n[dim]95 % interval, p[/]", overflow="fold")
    for pair in found:
        for metric in pair.metrics:
            cells = _metric_cells(metric, len(sets) > 1)
            if of_studies:
                cells.insert(0, escape(pair.sides[0].row) if metric is pair.metrics[0] else "")
            table.add_row(*cells, end_section=metric is pair.metrics[-1])
    return table


def _metric_cells(found: MetricCompared, named_set: bool) -> list[str]:
    metric = found.metric
    places = max(found.metric.decimals, 2)
    return [
        escape(metric.label) + (f" [dim]{escape(found.set_name)}[/]" if named_set else ""),
        *(metric.text(mean) or "–" for mean in found.means),
        f"[bold]{signed(found.difference, places) or '–'}[/]",
        _over_seeds(found, places),
        "\n".join(_over_samples(name, test, places) for name, test in found.over_samples.items()),
    ]


def _over_seeds(found: MetricCompared, places: int) -> str:
    test = found.over_seeds
    if isinstance(test, str):
        return f"[dim]not tested: {escape(test)}[/]"
    return f"{_tested(test, places)}\n[bold]{escape(test.finding.text)}[/]"


def _over_samples(name: str, test: SampleTest | str, places: int) -> str:
    before = f"[dim]{escape(name)}:[/] " if name else ""
    return before + (
        f"[dim]not tested: {escape(test)}[/]" if isinstance(test, str) else _tested(test, places)
    )


def _tested(test: RowTest | SampleTest, places: int) -> str:
    """Interval and p."""
    p = f"p < {LOWEST_P}" if test.p < LOWEST_P else f"p {test.p:.3f}"
    return f"{signed(test.low, places)} … {signed(test.high, places)}  {p.replace(' ', NO_BREAK)}"


def _notes(found: Sequence[Compared]) -> list[str]:
    """How to read the numbers."""
    metrics = [metric for pair in found for metric in pair.metrics]
    noun = found[0].sides[0].study.task.sample
    lines = []
    if tested := [metric for metric in metrics if isinstance(metric.over_seeds, RowTest)]:
        test = "t-test with moderated variances"
        if tested[0].paired:
            if max(metric.rows for metric in tested) < MODERATED_ROWS:
                test = "t-test"
            test = f"difference and paired {test} are seed by seed, at the seeds that both have"
        lines.append(f"Over seeds: {test}; interval and p {_adjusted(tested, found[0].sides)}.")
    tests = [
        test
        for metric in metrics
        for test in metric.over_samples.values()
        if isinstance(test, SampleTest)
    ]
    if tests:
        sizes = " or ".join(map(str, sorted({test.samples for test in tests})))
        paired = (
            f"paired bootstrap of one trial each, {DRAWS} draws of {sizes} {noun}s; p is two-sided"
        )
        lines.append(f"Over {noun}s: {paired}.")
        lines.append(f"Each test covers one source of variation: seeds or {noun}s.")
    for side in (side for side in found[0].sides if side.diverged):
        seeds = ", ".join(map(str, side.diverged))
        number = len(side.diverged) + len(side.trials)
        lines.append(f"{side.label}: {len(side.diverged)} of {number} seeds diverged ({seeds}).")
    return lines


def _lock_lines(pairs: Sequence[Compared]) -> list[str]:
    """Whether each study that has a lock, and what is compared of it here, follow that lock."""
    metrics = [replace(scored.metric, set=scored.set_name) for scored in pairs[0].metrics]
    first, second = pairs[0].sides
    reference = first.row if first.is_row and first.study.folder == second.study.folder else BASE
    lines = []
    for folder in dict.fromkeys([first.study.folder, second.study.folder]):
        if line := observed_line(folder):
            lines.append(f"{folder.name}: {line}")
        if (folder / LOCK_FILE).exists():
            study = read_study(folder)
            lines.append(f"{study.name}: {lock_line(study, Output(study, metrics, reference))}")
    return lines


def _adjusted(tested: Sequence[MetricCompared], sides: SidePair) -> str:
    """Over what, such as "over the 2 rows of the study, as in the table"."""
    most = max(metric.rows for metric in tested)
    reference = sides[0].row
    if not tested[0].of_study:
        return (
            f"adjusted over the {most} pairs compared (Bonferroni)"
            if most > 1
            else "of this pair alone"
        )
    rows = "rows of the study"
    if any(trial.weights for side in sides for trial in side.trials):
        rows = "rows with these weights"
    family = f"over the {most} {rows}" if most > 1 else "of this pair alone"
    return f"{family}, as in the table" + (f" with --base {reference}" if reference != BASE else "")


def _samples(compared: Compared, found: Differing) -> Iterator[RenderableType]:
    noun = compared.sides[0].study.task.sample
    if found.metric is not None and found.samples:
        seeds = dict.fromkeys(trial.seed for trial in found.trials or ())
        named = f"{plural('seed', len(seeds))} {' and '.join(map(str, seeds))}"
        of = f"{escape(found.metric.label)} on {escape(found.set_name)}, {named}"
        yield f"\n[bold]The {len(found.samples)} {noun}s that differ most[/] [dim]({of})[/]"
        for sample in found.samples:
            yield _sample(sample, max(1, found.metric.decimals - 1), noun)
    if found.note:
        yield f"[dim]{escape(found.note[0].upper() + found.note[1:])}.[/]"


def _sample(sample: SampleCompared, places: int, noun: str) -> RenderableType:
    scores = f"{number(sample.first, places)} → {number(sample.second, places)}"
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in sample.texts.items():
        grid.add_row(escape(name), escape(text))
    head = (
        f"{noun} {sample.place}   [bold]{signed(sample.difference, places)}[/]   [dim]{scores}[/]"
    )
    return Group(head, Padding(grid, (0, 0, 1, 2))) if sample.texts else head


def _json(
    found: Sequence[Compared], samples: Differing, left_out: Sequence[list[str]]
) -> dict[str, Any]:
    """All numbers at full precision; differences are second minus first."""
    return {
        "pairs": [_pair_json(pair) for pair in found],
        "not_compared": dict(zip((FIRST, SECOND), left_out, strict=True)),
        "samples": {
            "metric": samples.metric and samples.metric.name,
            "set": samples.set_name,
            "trials": [trial.name for trial in samples.trials or ()],
            "note": samples.note,
            "differing": [
                {**asdict(sample), "difference": sample.difference} for sample in samples.samples
            ],
        },
    }


def _pair_json(pair: Compared) -> dict[str, Any]:
    sides = [
        {
            "name": side.label,
            "study": side.study.name,
            "trials": [trial.name for trial in side.trials],
        }
        for side in pair.sides
    ]
    shared = {name: getattr(pair, name) for name in ("configuration", "origin", "code")}
    metrics = [_metric_json(metric) for metric in pair.metrics]
    return {**dict(zip((FIRST, SECOND), sides, strict=True)), **shared, "metrics": metrics}


def _metric_json(found: MetricCompared) -> dict[str, Any]:
    shared = {
        name: getattr(found, name) for name in ("means", "seeds", "difference", "rows", "paired")
    }
    tests = {"over_seeds": _test_json(found.over_seeds)}
    of_samples = {name: _test_json(test) for name, test in found.over_samples.items()}
    return {
        "metric": found.metric.name,
        "set": found.set_name,
        **shared,
        **tests,
        "over_samples": of_samples,
    }


def _test_json(test: RowTest | SampleTest | str) -> dict[str, Any]:
    """That over seeds with the names that CSV and JSON of the table have, and the finding in
    words."""
    if isinstance(test, str):
        return {"untested": test}
    if isinstance(test, SampleTest):
        return {name: getattr(test, name) for name in ("difference", "low", "high", "p", "samples")}
    return {name: getattr(test, name) for name in ("difference", *TESTED)} | {
        "finding": test.finding.text
    }
