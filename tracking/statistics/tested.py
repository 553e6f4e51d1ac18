"""The tests of one row's differences as fields for programs: numbers, and what they say in words."""

from dataclasses import asdict
from typing import Any

from tracking.card import Card, Metric
from tracking.statistics.findings import Findings
from tracking.statistics.rows import TableRow
from tracking.statistics.sentence_tests import SentenceTests

NUMBERS = ("low", "high", "p", "p_welch")


def test_columns(card: Card, findings: Findings) -> list[str]:
    """The names of the fields that a file of columns has."""
    tested = [metric.name for metric in card.tabled if metric.name in findings.seeds]
    verdicts = [f"verdict_{name}" for name in findings.verdicts]
    return [*(f"{kind}_{name}" for name in tested for kind in (*NUMBERS, "test")), *verdicts, "unlike"]


def tested_fields(card: Card, row: TableRow, findings: Findings) -> dict[str, Any]:
    """Per metric `low_ppl`, `high_ppl`, `p_ppl`, `p_welch_ppl`, `test_ppl`; then the tests over samples, by seed."""
    flat: dict[str, Any] = {}
    for metric in card.tabled:
        if metric.name in findings.seeds:
            test = findings.test(row, metric)
            flat |= {f"{kind}_{metric.name}": getattr(test, kind, None) for kind in NUMBERS}
            flat[f"test_{metric.name}"] = words(row, metric, findings)
    samples = {name: _of_samples(row, found) for name, found in findings.samples.items()}
    flat |= {f"verdict_{name}": verdict_of(row, name, findings) for name in findings.verdicts}
    flat |= {"sample_tests": samples} if samples else {}
    return flat | {"unlike": [difference.text for difference in findings.unlike.get(row.row, [])]}


def verdict_of(row: TableRow, metric: str, findings: Findings) -> str:
    """Against the published difference; empty without one."""
    given = findings.verdicts[metric].rows.get(row.row) if metric in findings.verdicts else None
    return given.text if given else ""


def words(row: TableRow, metric: Metric, findings: Findings) -> str:
    """What the test says: "difference shown", "no difference shown; …" or "not tested: …"."""
    if row.row == findings.reference:
        return "reference"
    test = findings.test(row, metric)
    if test is None:
        why = findings.seeds[metric.name].family.untested.get(row.row, "")
        return f"not tested: {why}" if why else "not tested"
    if not test.shown:
        return "; ".join(filter(None, ["no difference shown", _needed(row, metric, findings)]))
    return "difference shown" if test.shown_by_both else "difference shown by Dunnett's test, not by Welch's"


def _needed(row: TableRow, metric: Metric, findings: Findings) -> str:
    seeds = findings.seeds[metric.name].needed.get(row.row)
    return f"would need ≥ {seeds} seeds" if seeds else "would need more than 1000 seeds"


def _of_samples(row: TableRow, found: SentenceTests) -> dict[str, Any]:
    """By seed: the numbers, or why there are none."""
    tests = {seed: asdict(test) for seed, test in found.tests.get(row.row, {}).items()}
    return {str(seed): of for seed, of in sorted({**tests, **found.untested.get(row.row, {})}.items())}
