"""A comparison for a terminal, and as JSON for scripts."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from tracking.compared import Compared, Differing, MetricCompared, SampleCompared
from tracking.formats import signed
from tracking.metrics import Metric
from tracking.seed_tests import RowTest
from tracking.sentence_tests import SentenceTest

LOWEST_P = 0.001


def shown(
    found: Sequence[Compared], samples: Differing, only: tuple[list[str], list[str]] | None
) -> Iterator[RenderableType]:
    """Configuration, metrics, samples, each below its heading. ``only``: rows that one of two studies has alone."""
    first, second = (side.label if only is None else side.study.name for side in found[0].sides)
    yield f"[bold]{escape(first)}[/] and [bold]{escape(second)}[/]: differences are {escape(second)} − {escape(first)}"
    yield _configuration(found[0])
    yield metrics_table([(None if only is None else each.sides[0].trials[0].row, each) for each in found])
    for name, rows in zip((first, second), only or ((), ()), strict=True):
        if rows:
            yield f"[dim]Not compared, of {escape(name)}: {escape(', '.join(rows))}[/]"
    yield from _samples(found[0], samples)
    yield ""


def metrics_table(found: Sequence[tuple[str | None, Compared]]) -> Table:
    """One line per metric; with a row's name, a section per row. The two kinds of chance have a column each."""
    table = Table(box=box.SIMPLE_HEAD, title="Metrics", title_justify="left", title_style="bold")
    first, second = (side.label for side in found[0][1].sides)
    rows = found[0][0] is not None
    for name in ["row"] if rows else []:
        table.add_column(name)
    table.add_column("metric", no_wrap=True)
    for name in [side.study.name for side in found[0][1].sides] if rows else [first, second]:
        table.add_column(escape(name), justify="right", overflow="fold", max_width=16)
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("chance over seeds", overflow="fold")
    table.add_column(f"chance over {found[0][1].sides[0].study.task.sample}s", overflow="fold")
    for row, compared in found:
        for place, metric in enumerate(compared.metrics):
            head = [escape(str(row)) if place == 0 else ""] if rows else []
            last = place + 1 == len(compared.metrics) and rows
            table.add_row(*head, *_metric_cells(metric), end_section=last)
    return table


def notes(found: Sequence[Compared]) -> list[str]:
    """How to read the numbers."""
    metrics = [metric for compared in found for metric in compared.metrics]
    noun = found[0].sides[0].study.task.sample
    lines = []
    if any(metric.over_seeds for metric in metrics):
        lines.append("Over seeds: Student's t with a 95 % interval, one variance for both; Welch's p beside it.")
    tests = [test for metric in metrics for test in metric.over_samples.values() if isinstance(test, SentenceTest)]
    if tests:
        sizes = " or ".join(map(str, sorted({test.sentences for test in tests})))
        lines.append(
            f"Over {noun}s: paired bootstrap, 10 000 draws of {sizes} {noun}s, 95 % interval, two-sided p of one test."
        )
        lines.append(f"It says nothing of other seeds, as the seeds say nothing of other {noun}s.")
    return lines


def to_json(found: Sequence[Compared], samples: Differing, only: tuple[list[str], list[str]]) -> dict[str, Any]:
    """All numbers at full precision; differences are second minus first."""
    return {
        "pairs": [_pair_json(compared) for compared in found],
        "not_compared": {"first": only[0], "second": only[1]},
        "samples": _samples_json(samples),
    }


def _configuration(compared: Compared) -> RenderableType:
    if not compared.configuration:
        return "\nNo setting differs."
    table = Table(box=box.SIMPLE_HEAD, title="Configuration", title_justify="left", title_style="bold")
    table.add_column("key", no_wrap=True)
    for side in compared.sides:
        table.add_column(escape(side.label), overflow="fold")
    for key, values in compared.configuration.items():
        table.add_row(escape(key), *("–" if value is None else escape(str(value)) for value in values))
    return table


def _metric_cells(found: MetricCompared) -> list[str]:
    metric, places = found.metric, max(found.metric.decimals, 2)
    counts = found.seeds if found.seeds != (1, 1) else (None, None)
    values = [_mean(metric, mean, count) for mean, count in zip(found.means, counts, strict=True)]
    return [
        f"{escape(metric.label)} [dim]{escape(found.set_name)}[/]",
        *values,
        f"[bold]{signed(found.difference, places) or '–'}[/]",
        _over_seeds(found.over_seeds, found.why_not_over_seeds, places),
        "\n".join(_over_samples(name, test, places) for name, test in found.over_samples.items()),
    ]


def _mean(metric: Metric, value: float | None, seeds: int | None) -> str:
    text = metric.text(value) or "–"
    return text if seeds is None else f"{text} [dim]({seeds} seed{'s' * (seeds != 1)})[/]"


def _over_seeds(test: RowTest | None, why: str, places: int) -> str:
    if test is None:
        return f"[dim]not tested: {escape(why)}[/]"
    interval = _interval(test.low, test.high, places)
    return f"{interval}  {_p(test.p)} [dim](Welch {_p(test.p_welch)})[/]"


def _over_samples(name: str, test: SentenceTest | str, places: int) -> str:
    before = f"[dim]{escape(name)}:[/] " if name else ""
    if isinstance(test, str):
        return f"{before}[dim]not tested: {escape(test)}[/]"
    return f"{before}{_interval(test.low, test.high, places)}  {_p(test.p)}"


def _interval(low: float, high: float, places: int) -> str:
    return f"{signed(low, places)} … {signed(high, places)}"


def _p(value: float) -> str:
    return f"p < {LOWEST_P}" if value < LOWEST_P else f"p {value:.3f}"


def _samples(compared: Compared, found: Differing) -> Iterator[RenderableType]:
    noun = compared.sides[0].study.task.sample
    if found.metric is not None and found.samples:
        seeds = dict.fromkeys(trial.seed for trial in found.trials or ())
        of = f"{escape(found.metric.label)} on {escape(found.set_name)}, seed {' and '.join(map(str, seeds))}"
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
        "over_seeds": asdict(found.over_seeds) if found.over_seeds else {"untested": found.why_not_over_seeds},
        "over_samples": over,
    }


def _samples_json(found: Differing) -> dict[str, Any]:
    return {
        "metric": found.metric.name if found.metric else None,
        "set": found.set_name,
        "trials": [trial.name for trial in found.trials or ()],
        "note": found.note,
        "differing": [{**asdict(sample), "difference": sample.difference} for sample in found.samples],
    }
