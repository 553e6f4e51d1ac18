"""A comparison for a terminal: configuration, origin, metrics and samples below their headings."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tracking.statistics.samples import SampleTest
from tracking.statistics.seeds.family import RowTest
from tracking.statistics.side_comparison import Compared, Differing, MetricCompared, SampleCompared
from tracking.words import number, plural, signed

LOWEST_P = 0.001
NAME_WIDTH = 12
"""Letters of a name that are never broken."""
NO_BREAK = "\N{NO-BREAK SPACE}"


def comparison_parts(
    comparisons: Sequence[Compared],
    samples: Differing,
    left_out: Sequence[list[str]],
    are_studies: bool,
) -> Iterator[RenderableType]:
    """What to print, in order.

    ``left_out``: the rows that are not compared, by study.
    """
    compared = comparisons[0]
    labels = [side.label for side in compared.sides]
    names = labels
    if are_studies:
        names = [side.label.removesuffix(f"/{side.row}") for side in compared.sides]
    first, second = (escape(name) for name in names)
    yield f"[bold]{first}[/] and [bold]{second}[/]: differences are {second} − {first}"
    if compared.configuration:
        yield _two_sided("Configuration", labels, compared.configuration)
    else:
        yield "\nNo setting differs."
    if compared.origin:
        yield _two_sided("Packages, machine and code", labels, compared.origin)
    if compared.code:
        yield f"[bold]Code[/]: from {escape(labels[0])} to {escape(labels[1])}"
        # Text, since secrets are hidden already and the console would mask names, too.
        yield Text("\n".join(compared.code))
    yield _metrics_table(comparisons, names, are_studies)
    if samples.metric is not None:  # else the note below says why
        yield from _untested_samples(comparisons)
    for name, rows in zip(names, left_out, strict=True):
        if rows:
            words = f"{escape(', '.join(rows))} of {escape(name)}"
            yield f"[dim]Not compared (finished in only one study, or diverged): {words}[/]"
    yield from _samples(compared, samples)
    yield ""


def _titled(title: str) -> Table:
    return Table(box=box.SIMPLE_HEAD, title=escape(title), title_justify="left", title_style="bold")


def _two_sided(
    title: str, labels: Sequence[str], differing: Mapping[str, tuple[Any, Any]]
) -> Table:
    """A line for each key that differs."""
    table = _titled(title)
    table.add_column("key", no_wrap=True)
    for label in labels:
        table.add_column(escape(label), overflow="fold")
    for key, values in differing.items():
        cells = ["–" if value is None else escape(str(value)) for value in values]
        table.add_row(escape(key), *cells)
    return table


def _metrics_table(
    comparisons: Sequence[Compared], names: Sequence[str], are_studies: bool
) -> Table:
    """A line for each metric, and for studies a section for each row. Chance over seeds has a
    column, and so has chance over samples where any is tested."""
    metrics = [metric for comparison in comparisons for metric in comparison.metrics]
    sets = list(dict.fromkeys(metric.set_name for metric in metrics))
    table = _titled(f"Metrics on {' and '.join(sets)}")
    if are_studies:
        table.add_column("row", overflow="fold")
    table.add_column("metric", overflow="fold")
    for index, name in enumerate(names):
        seed_counts = {metric.seeds[index] for metric in metrics}
        head = escape(name)
        if len(seed_counts) == 1:
            head += f"\n[dim]seeds: {min(seed_counts)}[/]"
        shortest = min(len(name), NAME_WIDTH)
        table.add_column(head, justify="right", overflow="fold", min_width=shortest)
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("test over seeds\n[dim]95 % interval, p[/]", no_wrap=True)
    tests_samples = _tests_samples(metrics)
    if tests_samples:
        noun = comparisons[0].sides[0].study.task.sample
        table.add_column(f"test over {noun}s\n[dim]95 % interval, p[/]", overflow="fold")
    for comparison in comparisons:
        cells_of = partial(_metric_cells, names_set=len(sets) > 1, with_samples=tests_samples)
        _add_section(table, comparison, are_studies, cells_of)
    return table


def _tests_samples(metrics: Iterable[MetricCompared]) -> bool:
    """Whether any of these metrics has a test over samples."""
    tests = [test for metric in metrics for test in metric.over_samples.values()]
    return any(isinstance(test, SampleTest) for test in tests)


def _untested_samples(comparisons: Sequence[Compared]) -> Iterator[str]:
    """Why no metric is tested over samples, each reason once."""
    metrics = [metric for comparison in comparisons for metric in comparison.metrics]
    if _tests_samples(metrics):
        return
    noun = comparisons[0].sides[0].study.task.sample
    reasons = dict.fromkeys(str(test) for one in metrics for test in one.over_samples.values())
    if reasons:
        yield f"[dim]Not tested over {noun}s: {escape('; '.join(reasons))}.[/]"


def _add_section(
    table: Table,
    comparison: Compared,
    are_studies: bool,
    cells_of: Callable[[MetricCompared], list[str]],
) -> None:
    """The lines of one row. The first has its name."""
    last = comparison.metrics[-1]
    row = escape(comparison.sides[0].row)
    for metric in comparison.metrics:
        cells = cells_of(metric)
        if are_studies:
            cells = [row, *cells]
            row = ""
        table.add_row(*cells, end_section=metric is last)


def _metric_cells(compared: MetricCompared, names_set: bool, with_samples: bool) -> list[str]:
    metric = compared.metric
    decimals = max(metric.decimals, 2)
    label = escape(metric.label)
    if names_set:
        label += f" [dim]{escape(compared.set_name)}[/]"
    means = [metric.text(mean) or "–" for mean in compared.means]
    difference = signed(compared.difference, decimals) or "–"
    cells = [label, *means, f"[bold]{difference}[/]", _over_seeds(compared, decimals)]
    if with_samples:
        tests = compared.over_samples.items()
        cells.append("\n".join(_over_samples(name, test, decimals) for name, test in tests))
    return cells


def _over_seeds(compared: MetricCompared, decimals: int) -> str:
    test = compared.over_seeds
    if isinstance(test, str):
        return _not_tested(test)
    return f"{_interval_and_p(test, decimals)}\n[bold]{escape(test.finding.text)}[/]"


def _over_samples(name: str, test: SampleTest | str, decimals: int) -> str:
    text = _not_tested(test) if isinstance(test, str) else _interval_and_p(test, decimals)
    return f"[dim]{escape(name)}:[/] {text}" if name else text


def _not_tested(reason: str) -> str:
    return f"[dim]not tested: {escape(reason)}[/]"


def _interval_and_p(test: RowTest | SampleTest, decimals: int) -> str:
    p = f"p < {LOWEST_P}" if test.p < LOWEST_P else f"p {test.p:.3f}"
    interval = f"{signed(test.low, decimals)} … {signed(test.high, decimals)}"
    return f"{interval}  {p.replace(' ', NO_BREAK)}"


def _samples(compared: Compared, differing: Differing) -> Iterator[RenderableType]:
    """The samples that differ most, then why there are none or no texts."""
    noun = compared.sides[0].study.task.sample
    metric = differing.metric
    samples = differing.samples
    if metric is not None and samples:
        seeds = list(dict.fromkeys(trial.seed for trial in differing.trials or ()))
        seed_words = f"{plural('seed', len(seeds))} {' and '.join(map(str, seeds))}"
        origin = f"{escape(metric.label)} on {escape(differing.set_name)}, {seed_words}"
        yield f"\n[bold]The {len(samples)} {noun}s that differ most[/] [dim]({origin})[/]"
        for sample in samples:
            yield _sample(sample, max(1, metric.decimals - 1), noun)
    note = differing.note
    if note:
        yield f"[dim]{escape(note[0].upper() + note[1:])}.[/]"


def _sample(sample: SampleCompared, decimals: int, noun: str) -> RenderableType:
    """The scores of a sample, and its texts if there are any."""
    scores = f"{number(sample.first, decimals)} → {number(sample.second, decimals)}"
    difference = signed(sample.difference, decimals)
    head = f"{noun} {sample.place}   [bold]{difference}[/]   [dim]{scores}[/]"
    if not sample.texts:
        return head
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in sample.texts.items():
        grid.add_row(escape(name), escape(text))
    return Group(head, Padding(grid, (0, 0, 1, 2)))
