"""The notes below a comparison: how its tests are made, and whether locks are followed."""

from collections.abc import Sequence
from dataclasses import replace

from tracking.observed.record import observed_line
from tracking.statistics.samples import SampleTest
from tracking.statistics.seeds.family import RowTest
from tracking.statistics.seeds.finding import DRAWS, MODERATED_ROWS
from tracking.statistics.side_comparison import Compared, MetricCompared
from tracking.statistics.sides import Side, SidePair
from tracking.statistics.table_row import BASE
from tracking.study import read_study
from tracking.study_lock import LOCK_FILE, Output, lock_line


def notes(comparisons: Sequence[Compared]) -> list[str]:
    """How to read the numbers."""
    metrics = [metric for comparison in comparisons for metric in comparison.metrics]
    sides = comparisons[0].sides
    lines: list[str] = []
    tested = [metric for metric in metrics if isinstance(metric.over_seeds, RowTest)]
    if tested:
        adjustment = _adjustment(tested, sides)
        lines.append(f"Over seeds: {_seed_test(tested)}; interval and p {adjustment}.")
    sample_counts = _sample_counts(metrics)
    if sample_counts:
        noun = sides[0].study.task.sample
        counts = " or ".join(str(count) for count in sample_counts)
        bootstrap = f"paired bootstrap of one trial each, {DRAWS} draws of {counts} {noun}s"
        lines.append(f"Over {noun}s: {bootstrap}; p is two-sided.")
        lines.append(f"Each test covers one source of variation: seeds or {noun}s.")
    lines += [_diverged_line(side) for side in sides if side.diverged]
    return lines


def _seed_test(tested: Sequence[MetricCompared]) -> str:
    """The name of the test over seeds."""
    if not tested[0].paired:
        return "t-test with moderated variances"
    is_moderated = max(metric.rows for metric in tested) >= MODERATED_ROWS
    test = "t-test with moderated variances" if is_moderated else "t-test"
    return f"difference and paired {test} are seed by seed, at the seeds that both have"


def _sample_counts(metrics: Sequence[MetricCompared]) -> list[int]:
    """The numbers of samples that tests over samples had."""
    counts = {
        test.samples
        for metric in metrics
        for test in metric.over_samples.values()
        if isinstance(test, SampleTest)
    }
    return sorted(counts)


def _diverged_line(side: Side) -> str:
    seeds = ", ".join(str(seed) for seed in side.diverged)
    total = len(side.diverged) + len(side.trials)
    return f"{side.label}: {len(side.diverged)} of {total} seeds diverged ({seeds})."


def _adjustment(tested: Sequence[MetricCompared], sides: SidePair) -> str:
    """What interval and p are adjusted over, such as "over the 2 rows of the study"."""
    size = max(metric.rows for metric in tested)
    if not tested[0].of_study:
        if size > 1:
            return f"adjusted over the {size} pairs compared (Bonferroni)"
        return "for this pair"
    rows = "rows of the study"
    if any(trial.weights for side in sides for trial in side.trials):
        rows = "rows with these weights"
    family = f"over the {size} {rows}" if size > 1 else "for this pair"
    options = "" if _is_as_in_table(sides) else f" with --base {sides[0].row}"
    return f"{family}, as in the table{options}"


def _is_as_in_table(sides: SidePair) -> bool:
    """Whether the study's table compares the second row with the first one."""
    first, second = sides
    return first.row == first.study.references.get(second.row, BASE)


def lock_lines(comparisons: Sequence[Compared]) -> list[str]:
    """Whether each study was imported; and whether it and this comparison follow its lock."""
    compared = comparisons[0]
    metrics = [replace(scored.metric, set=scored.set_name) for scored in compared.metrics]
    first, second = compared.sides
    is_of_study = first.is_row and first.study.folder == second.study.folder
    reference = first.row if is_of_study and not _is_as_in_table(compared.sides) else BASE
    lines: list[str] = []
    for folder in dict.fromkeys([first.study.folder, second.study.folder]):
        observed = observed_line(folder)
        if observed:
            lines.append(f"{folder.name}: {observed}")
        if (folder / LOCK_FILE).exists():
            study = read_study(folder)
            output = Output(study, metrics, reference)
            lines.append(f"{study.name}: {lock_line(study, output)}")
    return lines
