"""A comparison for a terminal, and as JSON for scripts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tracking.card import TESTED, Metric
from tracking.statistics.comparison import Compared, Differing, MetricCompared, SampleCompared, Side
from tracking.statistics.family import RowTest
from tracking.statistics.finding import DRAWS
from tracking.statistics.rows import BASE
from tracking.statistics.samples import SampleTest
from tracking.words import signed

LOWEST_P = 0.001
NO_BREAK = "\N{NO-BREAK SPACE}"


def shown(
    found: Sequence[Compared], samples: Differing, only: tuple[list[str], list[str]] | None
) -> Iterator[RenderableType]:
    """Configuration, metrics, samples, each below its heading. ``only``: rows not finished in both studies."""
    first, second = (side.label if only is None else _study_label(side) for side in found[0].sides)
    yield f"[bold]{escape(first)}[/] and [bold]{escape(second)}[/]: differences are {escape(second)} − {escape(first)}"
    yield _configuration(found[0])
    yield from _origin(found[0])
    yield metrics_table([(None if only is None else each.sides[0].trials[0].row, each) for each in found])
    for name, rows in zip((first, second), only or ((), ()), strict=True):
        if rows:
            yield f"[dim]Not compared, of {escape(name)}, since not finished in both: {escape(', '.join(rows))}[/]"
    yield from _samples(found[0], samples)
    yield ""


def metrics_table(found: Sequence[tuple[str | None, Compared]]) -> Table:
    """One line per metric; with a row's name, a section per row. The two kinds of chance have a column each."""
    title = f"Metrics on {' and '.join(_sets(found))}"
    table = Table(box=box.SIMPLE_HEAD, title=escape(title), title_justify="left", title_style="bold")
    rows = found[0][0] is not None
    for name in ["row"] if rows else []:
        table.add_column(name, overflow="fold")
    table.add_column("metric")
    for place, side in enumerate(found[0][1].sides):
        counts = {metric.seeds[place] for _, compared in found for metric in compared.metrics}
        seeds = f"\n[dim]{_seeds(*counts)}[/]" if len(counts) == 1 else ""
        table.add_column(escape(_study_label(side) if rows else side.label) + seeds, justify="right", overflow="fold")
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("chance over seeds\n[dim]95 % interval, p[/]", no_wrap=True)
    noun = found[0][1].sides[0].study.task.sample
    table.add_column(f"chance over {noun}s\n[dim]95 % interval, p[/]", overflow="fold")
    for row, compared in found:
        for place, metric in enumerate(compared.metrics):
            head = [escape(str(row)) if place == 0 else ""] if rows else []
            last = place + 1 == len(compared.metrics) and rows
            table.add_row(*head, *_metric_cells(metric, len(_sets(found)) > 1), end_section=last)
    return table


def notes(found: Sequence[Compared]) -> list[str]:
    """How to read the numbers."""
    metrics = [metric for compared in found for metric in compared.metrics]
    first, second = found[0].sides
    noun = first.study.task.sample
    lines = []
    if tested := [metric for metric in metrics if isinstance(metric.over_seeds, RowTest)]:
        lines.append(f"Over seeds: t-test with moderated variances; interval and p {_adjusted(tested, first)}.")
    tests = [test for metric in metrics for test in metric.over_samples.values() if isinstance(test, SampleTest)]
    if tests:
        sizes = " or ".join(map(str, sorted({test.samples for test in tests})))
        lines.append(
            f"Over {noun}s: paired bootstrap of one trial each, {DRAWS} draws of {sizes} {noun}s; p is two-sided."
        )
        lines.append(f"Each test covers one source of variation: seeds or {noun}s.")
    lines += [f"{side.label}: {_diverged(side)}." for side in (first, second) if side.diverged]
    return lines


def _adjusted(tested: Sequence[MetricCompared], first: Side) -> str:
    """Over what, such as "over the 2 rows of the study, as in the table"."""
    most, reference = max(metric.rows for metric in tested), first.trials[0].row
    if not tested[0].of_study:
        return f"adjusted over the {most} pairs compared (Bonferroni)" if most > 1 else "of this pair alone"
    family = f"over the {most} rows of the study" if most > 1 else "of this pair alone"
    return f"{family}, as in the table" + (f" with --base {reference}" if reference != BASE else "")


def _diverged(side: Side) -> str:
    lost = len(side.diverged)
    return f"{lost} of {lost + len(side.trials)} seeds diverged ({', '.join(map(str, side.diverged))})"


def to_json(found: Sequence[Compared], samples: Differing, only: tuple[list[str], list[str]]) -> dict[str, Any]:
    """All numbers at full precision; differences are second minus first."""
    return {
        "pairs": [_pair_json(compared) for compared in found],
        "not_compared": {"first": only[0], "second": only[1]},
        "samples": _samples_json(samples),
    }


def _study_label(side: Side) -> str:
    """The study of a side that is named by study and row."""
    return side.label.removesuffix(f"/{side.trials[0].row}")


def _configuration(compared: Compared) -> RenderableType:
    if not compared.configuration:
        return "\nNo setting differs."
    return _two_sided("Configuration", compared, compared.configuration)


def _origin(compared: Compared) -> Iterator[RenderableType]:
    """Packages, machine and code, where these differ."""
    if compared.origin:
        yield _two_sided("Packages, machine and code", compared, compared.origin)
    if compared.code:
        yield f"[bold]Code[/]: from {escape(compared.sides[0].label)} to {escape(compared.sides[1].label)}"
        yield Text("\n".join(compared.code))  # without secrets already; the console would mask names, too


def _two_sided(title: str, compared: Compared, differing: Mapping[str, tuple[Any, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    table.add_column("key", no_wrap=True)
    for side in compared.sides:
        table.add_column(escape(side.label), overflow="fold")
    for key, values in differing.items():
        table.add_row(escape(key), *("–" if value is None else escape(str(value)) for value in values))
    return table


def _metric_cells(found: MetricCompared, named_set: bool) -> list[str]:
    metric, places = found.metric, max(found.metric.decimals, 2)
    return [
        escape(metric.label) + (f" [dim]{escape(found.set_name)}[/]" if named_set else ""),
        *(metric.text(mean) or "–" for mean in found.means),
        f"[bold]{signed(found.difference, places) or '–'}[/]",
        _over_seeds(found, places),
        "\n".join(_over_samples(name, test, places) for name, test in found.over_samples.items()),
    ]


def _sets(found: Sequence[tuple[str | None, Compared]]) -> list[str]:
    return list(dict.fromkeys(metric.set_name for _, compared in found for metric in compared.metrics))


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count != 1)}"


def _over_seeds(found: MetricCompared, places: int) -> str:
    test = found.over_seeds
    if isinstance(test, str):
        return f"[dim]not tested: {escape(test)}[/]"
    return f"{_interval(test.low, test.high, places)}  {_p(test.p)}\n[bold]{escape(test.finding.text)}[/]"


def _over_samples(name: str, test: SampleTest | str, places: int) -> str:
    before = f"[dim]{escape(name)}:[/] " if name else ""
    if isinstance(test, str):
        return f"{before}[dim]not tested: {escape(test)}[/]"
    return f"{before}{_interval(test.low, test.high, places)}  {_p(test.p)}"


def _interval(low: float, high: float, places: int) -> str:
    return f"{signed(low, places)} … {signed(high, places)}"


def _p(value: float) -> str:
    text = f"p < {LOWEST_P}" if value < LOWEST_P else f"p {value:.3f}"
    return text.replace(" ", NO_BREAK)


def _samples(compared: Compared, found: Differing) -> Iterator[RenderableType]:
    noun = compared.sides[0].study.task.sample
    if found.metric is not None and found.samples:
        seeds = dict.fromkeys(trial.seed for trial in found.trials or ())
        named = f"seed{'s' * (len(seeds) > 1)} {' and '.join(map(str, seeds))}"
        of = f"{escape(found.metric.label)} on {escape(found.set_name)}, {named}"
        yield f"\n[bold]The {len(found.samples)} {noun}s that differ most[/] [dim]({of})[/]"
    for sample in found.samples:
        yield _sample(sample, found.metric, noun, [side.label for side in compared.sides])
    if found.note:
        yield f"[dim]{escape(found.note[0].upper() + found.note[1:])}.[/]"


def _sample(sample: SampleCompared, metric: Metric | None, noun: str, labels: Sequence[str]) -> RenderableType:
    places = 1 if metric is None else max(1, metric.decimals - 1)
    scores = f"{sample.first:.{places}f} → {sample.second:.{places}f}"
    head = f"{noun} {sample.place}   [bold]{signed(sample.difference, places)}[/]   [dim]{scores}[/]"
    if not sample.texts:
        return head
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in sample.texts.items():
        grid.add_row(escape(name), escape(text))
    return Group(head, Padding(grid, (0, 0, 1, 2)))


def _pair_json(compared: Compared) -> dict[str, Any]:
    first, second = compared.sides
    return {
        "first": {"name": first.label, "study": first.study.name, "trials": [trial.name for trial in first.trials]},
        "second": {"name": second.label, "study": second.study.name, "trials": [trial.name for trial in second.trials]},
        "configuration": {key: list(values) for key, values in compared.configuration.items()},
        "origin": {key: list(values) for key, values in compared.origin.items()},
        "code": compared.code,
        "metrics": [_metric_json(metric) for metric in compared.metrics],
    }


def _metric_json(found: MetricCompared) -> dict[str, Any]:
    over = {
        name: {"untested": test} if isinstance(test, str) else {k: v for k, v in asdict(test).items() if k != "p_holm"}
        for name, test in found.over_samples.items()
    }
    return {
        "metric": found.metric.name,
        "set": found.set_name,
        "means": list(found.means),
        "seeds": list(found.seeds),
        "difference": found.difference,
        "over_seeds": _test_json(found.over_seeds),
        "rows": found.rows,
        "over_samples": over,
    }


def _test_json(test: RowTest | str) -> dict[str, Any]:
    """With the names that CSV and JSON of the table have, and the finding in words."""
    if isinstance(test, str):
        return {"untested": test}
    numbers = {name: getattr(test, name) for name in TESTED}
    return {"difference": test.difference, **numbers, "finding": test.finding.text}


def _samples_json(found: Differing) -> dict[str, Any]:
    return {
        "metric": found.metric.name if found.metric else None,
        "set": found.set_name,
        "trials": [trial.name for trial in found.trials or ()],
        "note": found.note,
        "differing": [{**asdict(sample), "difference": sample.difference} for sample in found.samples],
    }
