"""A paragraph on methods that one can paste into a paper: model, data, seeds and tests, with the numbers of a study."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tracking.statistics.bootstrap import DRAWS, SampleTests
from tracking.statistics.family import Family
from tracking.statistics.finding import ALPHA
from tracking.statistics.findings import Findings
from tracking.statistics.rows import DecodeSettings
from tracking.study import Standing, Study
from tracking.table.columns import setting_words
from tracking.words import listed, millions, parameters, spanned

Results = dict[str, dict[int, dict[str, Any]]]
"""Row -> seed -> the content of result.json."""
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def methods(study: Study, findings: Findings, rows: Collection[str] | None = None) -> str:
    """Two to four sentences of English, which tell only what was done. ``rows`` are the shown ones, None for all.

    Tests over samples are told where there are none over seeds."""
    card, reference = study.task, findings.reference
    of_rows = [each for each in study.standings() if rows is None or each.trial.row in (reference, *rows)]
    trained = _results(of_rows)
    shown = _results(each for each in of_rows if each.counted is not None)
    if not trained:
        return f"No trial of the study {study.name} is finished."
    seeds = {card.tested(of).name: findings.families[of.name] for of in card.tabled if of.name in findings.families}
    tested = {name: family for name, family in seeds.items() if family.tests}
    bootstrapped = [tests for tests in findings.samples.values() if tests.tests]
    if tested:
        tests = _over_seeds(study, tested, reference)
    else:
        tests = _over_sentences(study, bootstrapped, reference) if bootstrapped else "No difference was tested."
    parts = (_trained(study, trained, reference), _diverged(of_rows), _measured(study, shown), tests)
    return " ".join(filter(None, parts))


def _diverged(of: Sequence[Standing]) -> str:
    lost = [each.trial.name for each in of if each.diverged is not None]
    finished = sum(each.result is not None for each in of)
    return f"{len(lost)} of {finished} trainings diverged and are left out ({listed(lost)})." if lost else ""


def _results(of: Iterable[Standing]) -> Results:
    """Of the finished ones among these."""
    found: Results = {}
    for each in of:
        if each.result is not None:
            found.setdefault(each.trial.row, {})[each.trial.seed] = each.result
    return found


def _trained(study: Study, shown: Results, reference: str) -> str:
    """Model, data and seeds."""
    others = len(shown) - (reference in shown)
    base = f"the configuration {reference}{_described(study, shown, reference)}" if reference in shown else ""
    variants = (
        f"{_count(others, 'variant')} of it, each with one named change" if base else _count(others, "configuration")
    )
    trained = " and ".join(filter(None, [base, variants if others else ""]))
    data = study.settings.get("data", {}).get("name")
    on = f" on the data set {data}" if isinstance(data, str) and data else ""
    counts = sorted({len(seeds) for seeds in shown.values()})
    seeds = _count(counts[0], "random seed") if len(counts) == 1 else f"{spanned(counts)} random seeds"
    each = "" if len(shown) == 1 else " each"
    return f"In an ablation study of {study.task.name}{on}, we trained {trained}, with {seeds}{each}."


def _described(study: Study, shown: Results, reference: str) -> str:
    """Its settings that have a symbol, and its parameters."""
    cells, symbols = study.cells.get(reference, {}), study.task.symbols
    words = [f"{symbol} {cells[key]}" for key, symbol in symbols.items() if key in cells]
    params = next((result.get("params") for result in shown[reference].values()), None)
    size = millions if study.task.millions else parameters
    words += [f"{size(params)} parameters"] if params is not None else []
    return f" ({', '.join(words)})" if words else ""


def _measured(study: Study, shown: Results) -> str:
    """Metrics with their sets, settings for scoring and signatures. Settings in which trials differ are left out."""
    card, parts = study.task, list[str]()
    for name in card.scored_sets:
        of_set = [result["scores"].get(name, {}) for seeds in shown.values() for result in seeds.values()]
        settings = DecodeSettings.of([scores.get("decode", {}) for scores in of_set if scores]).agreed()
        with_words = f" ({', '.join(words)})" if (words := setting_words(card, settings)) else ""
        labels = [metric.label for metric in card.tabled if metric.set == name]
        parts.append(f"{listed(labels)} on the {name} set{with_words}")
    means = ", as means over seeds" if any(len(seeds) > 1 for seeds in shown.values()) else ""
    return f"We report {listed(parts)}{_signatures(study, shown)}{means}."


def _signatures(study: Study, shown: Results) -> str:
    """Of the table's metrics, where all trials share one."""
    found: list[str] = []
    for metric in study.task.tabled:
        scores = [result["scores"].get(metric.set, {}) for seeds in shown.values() for result in seeds.values()]
        signatures = {of.get(metric.signature) for of in scores} if metric.signature else set[Any]()
        found += [f"{metric.label} {next(iter(signatures))}"] if len(signatures) == 1 and all(signatures) else []
    return f" [{'; '.join(found)}]" if found else ""


def _over_seeds(study: Study, families: Mapping[str, Family], reference: str) -> str:
    labels = {metric.name: metric.label for metric in study.task.metrics}
    rows = sorted({len(family.tests) for family in families.values()})
    of = listed([labels.get(name, name) for name in families])
    family = f"{spanned(rows)} row{'s' * (rows != [1])}, {100 * ALPHA:g} % for the family"
    variances = "t-tests with moderated variances (Smyth, 2004) and Satterthwaite's degrees of freedom"
    return (
        f"Differences from {reference} in {of} are tested over seeds by {variances}, with Holm's correction "
        f"({family}); their 95 % intervals have Bonferroni's.{_margins(families.values(), reference)}"
    )


def _margins(families: Iterable[Family], reference: str) -> str:
    named = listed([f"{of.metric.label} {of.margin:g}" for of in families if of.margin is not None])
    shows = f"the intervals also show which rows are no worse than {reference} by δ, and which are better by at least δ"
    return f" With the stated margin δ ({named}), {shows}." if named else ""


def _over_sentences(study: Study, tests: Sequence[SampleTests], reference: str) -> str:
    """The set, its size and the seeds of the paired bootstrap."""
    noun = study.task.sample
    labels = {metric.name: metric.label for metric in study.task.metrics}
    every = [test for one in tests for seeds in one.tests.values() for test in seeds.values()]
    sizes, seeds = sorted({test.samples for test in every}), sorted({seed for one in tests for seed in one.seeds})
    sets = listed(list(dict.fromkeys(one.set_name for one in tests)))
    of = listed(list(dict.fromkeys(labels[one.metric] for one in tests)))
    only = "" if len(seeds) > 1 else "; it says nothing of other seeds"
    draws = f"{DRAWS} draws of the {spanned(sizes)} {noun}s of {sets}, Holm's adjustment over rows"
    test = f"by a paired bootstrap against {reference} ({draws})"
    begin = f"With too few seeds for a test over seeds, chance over {noun}s is tested in {of}"
    return f"{begin}, trial by trial with the same seed, {test}{only}."


def _count(number: int, noun: str) -> str:
    word = WORDS[number] if number < len(WORDS) else str(number)
    return f"{word} {noun}{'s' * (number != 1)}"
