"""What is said of a table: the lines below it, and the report's paragraph on methods.

The lines tell how its numbers came about, what its marks mean, and what the numbers cannot show.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tracking.card import PREFIXES, TESTED, Card, Metric
from tracking.statistics.findings import MIXED_SETTINGS, STOPPED, UNLIKE, Findings
from tracking.statistics.rows import ABSENT, TableRow, agreed, decode_of, over_seeds
from tracking.statistics.unlike_trials import summary
from tracking.study import Standing, Study
from tracking.table.columns import ALL_COST_LABELS, StudyTable, columns_of, setting_words
from tracking.table.row_captions import error_lines, not_compared_lines, seed_lines
from tracking.table.source_captions import lock_lines, source_lines, voucher_lines
from tracking.table.tested_captions import (
    delta_notes,
    tested_lines,
    tested_sentences,
)
from tracking.words import listed, millions, parameters, plural, spanned

COUNTED = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COMPARING = (
    "delta_",
    "delta_common_seeds_",
    "verdict_",
    "finding_",
    *(f"{kind}_" for kind in TESTED),
)
"""What stands before a metric's name in columns that say how a row differs from the reference."""
BEST = "best_"
MEASURED = [kind for kind in PREFIXES if not kind.startswith((BEST, "paper_"))]
"""What stands before a metric's name in columns that rest on the scores of the last checkpoint."""
OF_SEED = re.compile(r"_s\d+$")
"""At the end of the name of a column that holds one seed's score."""
SETTING = re.compile(r"\{(\w+):([^}]*)\}")
"""In a metric's note: a setting for scoring, and its usual value."""
COST_ORDER = ("seconds", "params", "flops", "cpu_seconds", "device_flops", "mfu", "device_hours")
COST_NOTES = {
    "cpu_seconds": "CPU seconds of training, over all workers",
    "mfu": "FLOPs ÷ device FLOPs",
    "device_hours": "time × devices",
}
WHAT_TO_DO = "To compare like with like, train such rows again under the conditions of the others."


def caption(table: StudyTable, names: Collection[str]) -> str:
    """An explanation of the columns with these names: the settings for scoring, the number of
    seeds, what was tested."""
    card = table.card
    rows = table.rows
    shown = {OF_SEED.sub("", name) for name in names}
    metrics, measured, compared = (
        _with_column(card, shown, kinds) for kinds in (PREFIXES, MEASURED, COMPARING)
    )
    scores, best = (_with_column(card, names, [kind]) for kind in ("", BEST))
    published = any(name.startswith(("paper_", "verdict_")) for name in shown)
    settings = decode_of(rows)
    if not any(row.seeds for row in rows):  # there is no number to explain
        shown = shown - ALL_COST_LABELS.keys()
        measured = []
        compared = []
    about = [
        *_measured(card, rows, measured),
        *(f"{metric.label}: {_noted(metric, settings)}" for metric in metrics if metric.note),
        *(
            f"best {metric.label}: the best one measured while training, at its step"
            for metric in best
        ),
        *(
            f"{ALL_COST_LABELS[name]}: {cost_note(table, name)}"
            for name in COST_ORDER
            if name in shown
        ),
        *_difference_notes(table, compared),
    ]
    if any(row.sd[metric.name] is not None for row in rows for metric in scores):
        about.append("±: standard deviation over seeds")
    sentence = f"{'; '.join(about)}." if about else ""
    notes = [sentence, card.published_note if published else "", _seeds_note(rows)]
    scaled = scaling_note({row.row: row.before_scaling for row in rows if row.before_scaling})
    sizes = size_note({row.row: row.size for row in rows if row.size})
    chance = [
        *_chance_notes(table, compared),
        *lock_lines(table.study, metrics, table.findings.reference),
    ]
    return "\n".join(filter(None, [" ".join(filter(None, notes)), *chance, sizes, scaled]))


def _noted(metric: Metric, settings: Mapping[str, Any]) -> str:
    """The metric's note, with the values of the settings that it names."""

    def value(setting: re.Match[str]) -> str:
        name, usual = setting.groups()
        found = settings.get(name, ABSENT)
        return usual if found == ABSENT else str(found)

    return SETTING.sub(value, metric.note)


def _with_column(card: Card, names: Collection[str], kinds: Iterable[str]) -> list[Metric]:
    """The metrics with a column of these kinds."""
    return [
        metric
        for metric in card.tabled
        if not {f"{kind}{metric.name}" for kind in kinds}.isdisjoint(names)
    ]


def _difference_notes(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    if compared:
        yield from delta_notes(table)


def size_note(sizes: Mapping[str, str]) -> str:
    """The rows whose model is of another size than base's, although they change no size. Empty
    without such rows."""
    listed = "; ".join(f"{row} has {words}" for row, words in sizes.items())
    return f"Also of another size than base: {listed}." if sizes else ""


def scaling_note(changes: Mapping[str, str]) -> str:
    """What rows are before scaling, by name: it explains names such as c_layers_2. Empty without
    rows."""
    words = "; ".join(f"{row} is {change}" for row, change in changes.items())
    return f"Before scaling {words}." if words else ""


def _seeds_note(rows: Sequence[TableRow]) -> str:
    """The number of seeds behind each row, and the limits that it sets on conclusions."""
    counts = sorted({row.seeds for row in rows if row.seeds})
    if not counts:
        return (
            "All finished seeds diverged."
            if any(row.diverged for row in rows)
            else "No seed is finished."
        )
    text = f"Seeds per row: {spanned(counts)}."
    return text if counts[0] > 1 else f"{text} With one seed: differences not tested."


def _measured(card: Card, rows: Sequence[TableRow], metrics: Sequence[Metric]) -> Iterator[str]:
    """Such as "accuracy and loss: measured on test, threshold 0.5", for each set."""
    words = setting_words(card, decode_of(rows))
    if not words and any(row.mixed_decode for row in rows):
        words = [MIXED_SETTINGS]
    for name in dict.fromkeys(metric.set for metric in metrics):
        labels = [metric.label for metric in metrics if metric.set == name]
        yield f"{listed(labels)}: measured on {', '.join([name, *words])}"


def cost_note(table: StudyTable, name: str) -> str:
    """How a cost comes about. One that no task can tell is unknown."""
    column = columns_of(table)[name]
    rows = table.rows
    unknown = [column.value(row) is None for row in rows if row.seeds]
    if unknown and all(unknown):
        return "unknown"
    note = COST_NOTES.get(name) or table.card.cost_notes.get(name, "computed")
    if name == "device_flops":
        rates = list(dict.fromkeys(words for row in rows for words in row.sustained))
        note = f"time × devices × what a device sustains ({listed(rates)})"
    return f"{note}, unknown where empty" if any(unknown) else note


def _chance_notes(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """What was tested over seeds; then the rows that are not alike, and those cut short."""
    if seeds := table.view.seeds:
        yield f"Only of seeds {_numbers(seeds)}; p values do not account for that choice."
    yield from seed_lines(table.rows, compared)
    yield from not_compared_lines(table.rows, compared)
    yield from tested_lines(table, compared)
    if table.view.verdicts:
        yield from _verdicts(table.card, table.findings)
    yield from _unlike(table)
    yield from _stopped(table.rows)
    yield from source_lines(table.study, [row.row for row in table.rows])
    yield from voucher_lines(table.study)
    yield from error_lines(table.rows)


def _unlike(table: StudyTable) -> Iterator[str]:
    if shown := {row.row: of for row in table.rows if (of := table.findings.unlike.get(row.row))}:
        told = f"{UNLIKE}: the row differs from most trials in more than its change: {'; '.join(summary(shown))}."
        yield f"{told} {WHAT_TO_DO}"


def _stopped(rows: Sequence[TableRow]) -> Iterator[str]:
    named = [
        f"{row.row} ({plural('seed', len(row.stopped))} {_numbers(row.stopped)})"
        for row in rows
        if row.stopped
    ]
    if named:
        yield f"{STOPPED}: training ended before its planned steps; means include these seeds: {', '.join(named)}."


def _numbers(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _verdicts(card: Card, findings: Findings) -> Iterator[str]:
    for metric in card.tabled:
        given = findings.verdicts.get(metric.name)
        yield from given.lines() if given else ()


def methods(table: StudyTable) -> str:
    """Two to four sentences of English on the shown rows, which tell only what was done."""
    study = table.study
    findings = table.findings
    hosts = {row.weights for row in table.rows if row.weights}
    rows = {findings.reference, *hosts, *(row.row for row in table.rows)}
    finished = [
        standing for standing in study.standings() if standing.result and standing.trial.row in rows
    ]
    if not finished:
        return f"No trial of the study {study.name} is finished."
    counted = [each.counted for each in finished if each.counted]
    trained = [each for each in finished if not each.trial.weights]
    lost = [each.trial.name for each in trained if each.diverged is not None]
    means = len({each.trial.row for each in finished if each.counted}) < len(counted)
    parts = [
        f"{_trained(study, trained, findings.reference)} {_only_scored(finished)}".strip()
        if trained
        else "",
        f"{len(lost)} of {len(trained)} trainings diverged and are left out ({listed(lost)})."
        if lost
        else "",
        f"We report {_metrics(study, counted)}{', as means over seeds' * means}.",
        tested_sentences(study, findings) or "No difference was tested.",
        *lock_lines(study, study.task.tabled, findings.reference),
    ]
    return " ".join(filter(None, parts))


def _trained(study: Study, finished: Sequence[Standing], reference: str) -> str:
    """Model, data and seeds."""
    seeds = Counter(each.trial.row for each in finished)
    others = len(seeds) - (reference in seeds)
    base = (
        f"the configuration {reference}{_described(study, finished, reference)}"
        if reference in seeds
        else ""
    )
    variants = (
        f"{_count(others, 'variant')} of it, each with one named change"
        if base
        else _count(others, "configuration")
    )
    trained = " and ".join(filter(None, [base, variants if others else ""]))
    data = study.settings.get("data", {}).get("name")
    on = f" on the data set {data}" if isinstance(data, str) and data else ""
    counts = sorted({*seeds.values()})
    each = (
        _count(counts[0], "random seed") if len(counts) == 1 else f"{spanned(counts)} random seeds"
    )
    each += "" if len(seeds) == 1 else " each"
    return f"In an ablation study of {study.task.name}{on}, we trained {trained}, with {each}."


def _only_scored(finished: Sequence[Standing]) -> str:
    """Rows without weights of their own."""
    rows = {each.trial.row for each in finished if each.trial.weights}
    if not rows:
        return ""
    verb = "scores" if len(rows) == 1 else "score"
    return (
        f"{_count(len(rows), 'further row').capitalize()} {verb} these weights with other settings."
    )


def _described(study: Study, finished: Sequence[Standing], reference: str) -> str:
    """Its settings that have a symbol, and its parameters."""
    cells = study.cells.get(reference, {})
    symbols = study.task.symbols
    words = [f"{symbol} {cells[key]}" for key, symbol in symbols.items() if key in cells]
    first = next(each.result or {} for each in finished if each.trial.row == reference)
    size = (millions if study.task.millions else parameters)(first.get("params"))
    words += [f"{size} parameters"] if size else []
    return f" ({', '.join(words)})" if words else ""


def _metrics(study: Study, results: Sequence[Mapping[str, Any]]) -> str:
    """With their sets, settings for scoring and signatures. What differs between trials is left
    out."""
    card = study.task
    parts = list[str]()
    signatures = list[str]()
    for name in card.scored_sets:
        of_set = [result["scores"][name] for result in results if result["scores"].get(name)]
        words = ", ".join(
            setting_words(card, agreed(over_seeds([scores.get("decode", {}) for scores in of_set])))
        )
        labels = [metric.label for metric in card.tabled if metric.set == name]
        parts.append(f"{listed(labels)} on the {name} set" + (f" ({words})" if words else ""))
    for metric in card.tabled:
        found = {
            result["scores"].get(metric.set, {}).get(metric.signature or "") for result in results
        }
        signatures += [f"{metric.label} {one}" for one in found if len(found) == 1 and one]
    return listed(parts) + (f" [{'; '.join(signatures)}]" if signatures else "")


def _count(number: int, noun: str) -> str:
    word = COUNTED[number] if number < len(COUNTED) else str(number)
    return f"{word} {plural(noun, number)}"
