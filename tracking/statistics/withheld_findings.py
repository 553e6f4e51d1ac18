"""Findings whose tests are withheld, since a study that was locked is not complete."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tracking.statistics.findings import Findings

if TYPE_CHECKING:
    from tracking.statistics.family import Family, RowTest


def withheld(findings: Findings, why: str) -> Findings:
    """The same without a test: ``why`` stands in its place. Reasons of rows without a test stay."""
    families = {name: _without_tests(family, why) for name, family in findings.families.items()}
    scoring = {
        name: _all_without_tests(of_metric, why) for name, of_metric in findings.scoring.items()
    }
    return replace(findings, families=families, scoring=scoring)


def _all_without_tests(families: "Sequence[Family]", why: str) -> "tuple[Family, ...]":
    return tuple(_without_tests(family, why) for family in families)


def _without_tests(family: "Family", why: str) -> "Family":
    reasons: dict[str, RowTest | str] = dict.fromkeys(family.tests, why)
    return replace(family, rows=family.rows | reasons, detectable=None)
