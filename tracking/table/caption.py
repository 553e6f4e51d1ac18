"""The long caption, below a table: how its numbers came about, what its marks mean, and what the
numbers cannot show. And the report's paragraph on methods.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tracking.card import PREFIXES, TESTED, Card, Metric
from tracking.statistics.scoring_settings import ABSENT, agreed, over_seeds
from tracking.statistics.seeds.finding import LEAST_SEEDS
from tracking.statistics.study_findings import MIXED_SETTINGS, STOPPED, UNLIKE, StudyFindings
from tracking.statistics.table_row import TableRow
from tracking.statistics.table_rows import decode_of
from tracking.statistics.unlike_trials import OF_SCORING, beyond_change, summary
from tracking.study import Standing, Study
from tracking.table.columns import ALL_COST_LABELS, columns_of, setting_words
from tracking.table.machine_captions import machine_lines
from tracking.table.resumptions import resumed_lines
from tracking.table.row_captions import error_lines, not_compared_lines, seed_lines
from tracking.table.source_captions import lock_lines, source_lines, voucher_lines
from tracking.table.study_table import StudyTable
from tracking.table.tested_captions import delta_notes, tested_lines, tested_sentences
from tracking.words import grouped, listed, millions, parameters, plural, seeds_listed, spanned

NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEST_PREFIXES = [f"{number}_" for number in TESTED]
COMPARING = ("delta_", "delta_common_seeds_", "verdict_", "finding_", *TEST_PREFIXES)
"""Prefixes of a metric's name in columns that say how a row differs from the reference."""
BEST = "best_"
MEASURED = [prefix for prefix in PREFIXES if not prefix.startswith((BEST, "paper_"))]
"""Prefixes of a metric's name in columns that rest on the scores of the last checkpoint."""
OF_SEED = re.compile(r"_s\d+$")
"""At the end of the name of a column that holds one seed's score."""
SETTING = re.compile(r"\{(\w+):([^}]*)\}")
"""In a metric's note: a setting for scoring, and its value where it is absent."""
COST_ORDER = ("seconds", "params", "flops", "cpu_seconds", "device_flops", "mfu", "device_hours")
COST_NOTES = {
    "cpu_seconds": "CPU seconds of training, over all workers",
    "mfu": "FLOPs ÷ device FLOPs",
    "device_hours": "time × devices",
}
WHAT_TO_DO = "For a fair comparison, {act} these rows under the same conditions as the others."


def caption(table: StudyTable, names: Collection[str]) -> str:
    """An explanation of the columns with these names: the settings for scoring, the number of
    seeds, what was tested."""
    columns = {OF_SEED.sub("", name) for name in names}
    metrics = _with_column(table.card, columns, PREFIXES)
    compared = _with_column(table.card, columns, COMPARING)
    if not any(row.seeds for row in table.rows):  # there is no number to explain
        columns -= ALL_COST_LABELS.keys()
        compared = []
    column_notes = [*_column_notes(table, columns, compared)]
    if _has_deviations(table, names):
        column_notes.append("±: standard deviation over seeds")
    paragraph = [f"{'; '.join(column_notes)}."] if column_notes else []
    if any(name.startswith(("paper_", "verdict_")) for name in columns):
        paragraph.append(table.card.published_note)
    paragraph.append(_seeds_note(table.rows))
    lines = [
        " ".join(filter(None, paragraph)),
        *_chance_notes(table, compared),
        *lock_lines(table.study, metrics, table.findings.reference),
        size_note({row.row: row.size for row in table.rows if row.size}),
        scaling_note({row.row: row.before_scaling for row in table.rows if row.before_scaling}),
    ]
    return "\n".join(filter(None, lines))


def _column_notes(
    table: StudyTable, columns: Collection[str], compared: Sequence[Metric]
) -> Iterator[str]:
    """What these columns hold."""
    card = table.card
    if any(row.seeds for row in table.rows):
        yield from _measured(card, table.rows, _with_column(card, columns, MEASURED))
    settings = decode_of(table.rows)
    for metric in _with_column(card, columns, PREFIXES):
        if metric.note:
            yield f"{metric.label}: {_metric_note(metric, settings)}"
    for metric in _with_column(card, columns, [BEST]):
        yield f"best {metric.label}: the best value measured during training, at its step"
    for name in COST_ORDER:
        if name in columns:
            yield f"{ALL_COST_LABELS[name]}: {cost_note(table, name)}"
    if compared:
        yield from delta_notes(table)


def _has_deviations(table: StudyTable, names: Collection[str]) -> bool:
    """Whether any of these columns shows a score with its standard deviation."""
    metrics = _with_column(table.card, names, [""])
    return any(row.sd[metric.name] is not None for row in table.rows for metric in metrics)


def _metric_note(metric: Metric, settings: Mapping[str, Any]) -> str:
    """The metric's note, with the values of the settings that it names."""

    def value(setting: re.Match[str]) -> str:
        name, absent_value = setting.groups()
        setting_value = settings.get(name, ABSENT)
        return absent_value if setting_value == ABSENT else str(setting_value)

    return SETTING.sub(value, metric.note)


def _with_column(card: Card, names: Collection[str], prefixes: Iterable[str]) -> list[Metric]:
    """The metrics with a column among these names, behind one of the prefixes."""
    metrics = []
    for metric in card.tabled:
        columns = {f"{prefix}{metric.name}" for prefix in prefixes}
        if not columns.isdisjoint(names):
            metrics.append(metric)
    return metrics


def size_note(sizes: Mapping[str, str]) -> str:
    """The rows whose model size differs from base's, although they change no size. Empty without
    such rows."""
    if not sizes:
        return ""
    parts = [f"{row} has {words}" for row, words in sizes.items()]
    return f"Model size also changes: {'; '.join(parts)}."


def scaling_note(changes: Mapping[str, str]) -> str:
    """What rows are before scaling, by name: it explains names such as c_layers_2. Empty without
    rows."""
    if not changes:
        return ""
    parts = [f"{row} = {change}" for row, change in changes.items()]
    return f"At full size: {'; '.join(parts)}."


def _seeds_note(rows: Sequence[TableRow]) -> str:
    """The number of seeds behind each row, and the limits that it sets on conclusions."""
    counts = sorted({row.seeds for row in rows if row.seeds})
    if counts == [1]:
        return "Differences are not tested: one seed per row."
    if counts:
        seeds = f"Seeds per row: {spanned(counts)}."
        if counts[0] < LEAST_SEEDS:
            seeds += f" Differences of rows with fewer than {LEAST_SEEDS} seeds are not tested."
        return seeds
    if any(row.diverged for row in rows):
        return "All finished seeds diverged."
    return "No seed is finished."


def _measured(card: Card, rows: Sequence[TableRow], metrics: Sequence[Metric]) -> Iterator[str]:
    """Such as "accuracy and loss: measured on test, threshold 0.5", for each set."""
    words = setting_words(card, decode_of(rows))
    if not words and any(row.mixed_decode for row in rows):
        words = [MIXED_SETTINGS]
    for set_name, labels in grouped((metric.set, metric.label) for metric in metrics).items():
        yield f"{listed(labels)}: measured on {', '.join([set_name, *words])}"


def cost_note(table: StudyTable, name: str) -> str:
    """How a cost comes about; "unknown" if no row has one."""
    column = columns_of(table)[name]
    is_unknown = [column.value(row) is None for row in table.rows if row.seeds]
    if is_unknown and all(is_unknown):
        return "unknown"
    note = COST_NOTES.get(name) or table.card.cost_notes.get(name, "computed")
    if name == "device_flops":
        rates = dict.fromkeys(words for row in table.rows for words in row.sustained)
        note = f"time × devices × what a device sustains ({listed([*rates])})"
    return f"{note}, unknown where empty" if any(is_unknown) else note


def _chance_notes(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """What was tested over seeds; then the rows that are not alike, and those cut short."""
    if table.view.seeds:
        seeds = ", ".join(map(str, table.view.seeds))
        yield f"Only seeds {seeds} are included; p values do not account for that choice."
    yield from seed_lines(table.rows, compared)
    yield from not_compared_lines(table.rows, compared)
    yield from tested_lines(table, compared)
    if table.view.verdicts:
        yield from _verdicts(table.card, table.findings)
    yield from _unlike(table)
    yield from machine_lines(table, compared)
    yield from _stopped(table.rows)
    yield from source_lines(table.study, [row.row for row in table.rows])
    yield from voucher_lines(table.study)
    yield from resumed_lines(table.study, [row.row for row in table.rows])
    yield from error_lines(table.rows)


def _unlike(table: StudyTable) -> Iterator[str]:
    unlike_rows = {}
    for row in table.rows:
        differences = table.findings.unlike.get(row.row)
        if differences:
            unlike_rows[row.row] = differences
    if unlike_rows:
        meaning = f"the row {beyond_change(unlike_rows)}"
        aspects = {one.aspect for differences in unlike_rows.values() for one in differences}
        scored_anew = all(_is_of_scoring(table.card, aspect) for aspect in aspects)
        what_to_do = WHAT_TO_DO.format(act="score" if scored_anew else "retrain")
        yield f"{UNLIKE}: {meaning}: {'; '.join(summary(unlike_rows))}. {what_to_do}"


def _is_of_scoring(card: Card, aspect: str) -> bool:
    """Whether the aspect concerns only scores, which can be measured again without training."""
    return aspect in card.scoring or aspect.endswith(OF_SCORING)


def _stopped(rows: Sequence[TableRow]) -> Iterator[str]:
    parts = []
    for row in rows:
        if row.stopped:
            parts.append(f"{row.row} ({seeds_listed(row.stopped)})")
    if parts:
        meaning = "training ended before its planned steps; means include these seeds"
        yield f"{STOPPED}: {meaning}: {', '.join(parts)}."


def _verdicts(card: Card, findings: StudyFindings) -> Iterator[str]:
    for metric in card.tabled:
        verdict = findings.verdicts.get(metric.name)
        if verdict is not None:
            yield from verdict.lines()


def methods(table: StudyTable) -> str:
    """Two to four sentences of English about the shown rows, which say only what was done."""
    study = table.study
    reference = table.findings.reference
    hosts = {row.weights for row in table.rows if row.weights}
    rows = {reference, *hosts, *(row.row for row in table.rows)}
    finished = [
        standing for standing in study.standings() if standing.result and standing.trial.row in rows
    ]
    if not finished:
        return f"No trial of the study {study.name} is finished."
    sentences = [
        _trained_sentence(study, finished, reference),
        _scoring_sentence(finished),
        _divergence_sentence(finished),
        _metrics_sentence(study, finished),
        tested_sentences(study, table.findings) or "No difference was tested.",
        *lock_lines(study, study.task.tabled, reference),
    ]
    return " ".join(filter(None, sentences))


def _trained_sentence(study: Study, finished: Sequence[Standing], reference: str) -> str:
    """Model, data and seeds."""
    seeds_of_row = Counter(
        standing.trial.row for standing in finished if not standing.trial.weights
    )
    if not seeds_of_row:
        return ""
    configurations = [_count(len(seeds_of_row), "configuration")]
    if reference in seeds_of_row:
        description = _description(study, finished, reference)
        configurations = [f"the configuration {reference}{description}"]
        variants = len(seeds_of_row) - 1
        if variants:
            count = _count(variants, "variant")
            each = "each " if variants > 1 else ""
            configurations.append(f"{count} of it, {each}with one named change")
    counts = sorted({*seeds_of_row.values()})
    seeds = f"{spanned(counts)} random seeds"
    if len(counts) == 1:
        seeds = _count(counts[0], "random seed")
    if len(seeds_of_row) > 1:
        seeds += " each"
    trained = " and ".join(configurations)
    return f"In an ablation study of {_task_and_data(study)}, we trained {trained}, with {seeds}."


def _task_and_data(study: Study) -> str:
    data = study.settings.get("data", {}).get("name")
    if isinstance(data, str) and data:
        return f"{study.task.name} on the data set {data}"
    return study.task.name


def _scoring_sentence(finished: Sequence[Standing]) -> str:
    """About rows without weights of their own; empty without trained rows."""
    rows = {standing.trial.row for standing in finished if standing.trial.weights}
    has_trained = any(not standing.trial.weights for standing in finished)
    if not rows or not has_trained:
        return ""
    verb = "scores" if len(rows) == 1 else "score"
    count = _count(len(rows), "further row").capitalize()
    return f"{count} {verb} these weights with other settings."


def _divergence_sentence(finished: Sequence[Standing]) -> str:
    trained = [standing for standing in finished if not standing.trial.weights]
    diverged = [standing.trial.name for standing in trained if standing.diverged is not None]
    if not diverged:
        return ""
    verb = "is" if len(diverged) == 1 else "are"
    count = f"{len(diverged)} of {len(trained)} trials"
    return f"{count} diverged and {verb} excluded ({listed(diverged)})."


def _description(study: Study, finished: Sequence[Standing], reference: str) -> str:
    """The reference's settings that have a symbol, and its parameters."""
    cells = study.cells.get(reference, {})
    parts = [f"{symbol} {cells[key]}" for key, symbol in study.task.symbols.items() if key in cells]
    results = [standing.result for standing in finished if standing.trial.row == reference]
    params = (results[0] or {}).get("params")
    size = millions(params) if study.task.millions else parameters(params)
    if size:
        parts.append(f"{size} parameters")
    return f" ({', '.join(parts)})" if parts else ""


def _metrics_sentence(study: Study, finished: Sequence[Standing]) -> str:
    """The metrics with their sets, settings for scoring and signatures. What differs between trials
    is left out."""
    rows = {standing.trial.row for standing in finished if standing.counted}
    results = [standing.counted for standing in finished if standing.counted]
    has_means = len(rows) < len(results)
    sets = listed([_set_words(study.task, name, results) for name in study.task.scored_sets])
    signatures = "; ".join(_signatures(study.task, results))
    if signatures:
        sets += f" [{signatures}]"
    if has_means:
        sets += ", as means over seeds"
    return f"We report {sets}."


def _set_words(card: Card, set_name: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Such as "accuracy and loss on the dev set (threshold 0.5)"."""
    all_scores = [result["scores"].get(set_name) for result in results]
    decodes = [scores.get("decode", {}) for scores in all_scores if scores]
    settings = setting_words(card, agreed(over_seeds(decodes)))
    labels = [metric.label for metric in card.tabled if metric.set == set_name]
    words = f"{listed(labels)} on the {set_name} set"
    return f"{words} ({', '.join(settings)})" if settings else words


def _signatures(card: Card, results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for metric in card.tabled:
        signatures = {
            result["scores"].get(metric.set, {}).get(metric.signature or "") for result in results
        }
        if len(signatures) == 1:
            signature = signatures.pop()
            if signature:
                yield f"{metric.label} {signature}"


def _count(number: int, noun: str) -> str:
    word = NUMBER_WORDS[number] if number < len(NUMBER_WORDS) else str(number)
    return f"{word} {plural(noun, number)}"
