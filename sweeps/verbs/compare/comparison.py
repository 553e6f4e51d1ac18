"""Compare two sides, and print how they differ."""

from pathlib import Path

from sweeps.console import OUT, next_verb, print_json
from sweeps.planning.studies.named_study import study_to_read
from sweeps.planning.studies.study_overrides import looking
from sweeps.verbs.command import print_notices
from sweeps.verbs.compare.as_json import comparison_json
from sweeps.verbs.compare.notes import lock_lines, notes
from sweeps.verbs.compare.sides import (
    by_output,
    chosen_metrics,
    finished_pairs,
    named_sides,
    refuse_unless_two,
    rows_left_out,
)
from sweeps.verbs.compare.tables import comparison_parts
from sweeps.verbs.texts import with_texts
from tracking.statistics.comparison import compared, differing


def print_comparison(
    names: list[str], overrides: list[str], set_name: str | None, metric: str | None, as_json: bool
) -> None:
    """Print how the two named trials, rows or studies differ. Raises RefusedError."""
    refuse_unless_two(names)
    selection = study_to_read(overrides)
    first, second = named_sides(names, selection.study, Path(selection.settings.paths.runs))
    sides = (first, second)
    if any(side.row and side.study.folder == selection.study.folder for side in sides):
        print_notices(selection.notices)
    pairs = finished_pairs(first, second)
    are_studies = first.row is None
    metrics = chosen_metrics(pairs, metric, set_name, are_studies)
    comparisons = compared(pairs, metrics, set_name)
    samples = differing(*pairs[0], by_output(metrics), set_name)
    samples = with_texts(samples, pairs[0], Path(selection.settings.paths.data))
    left_out = [rows_left_out(side, pairs) for side in sides]
    locks = lock_lines(comparisons)
    if as_json:
        numbers = comparison_json(comparisons, samples, left_out)
        print_json({**numbers, "locks": locks} if locks else numbers)
        return
    for part in comparison_parts(comparisons, samples, left_out, are_studies):
        OUT.print(part)
    for line in [*notes(comparisons), *locks]:
        OUT.print(line, style="dim", soft_wrap=True)
    next_verb("table", looking(first.study.folder, overrides))
