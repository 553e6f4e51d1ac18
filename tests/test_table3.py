"""The published studies of the repository: what is committed is what their files give."""

import shutil
from pathlib import Path

import pytest
from typed import typed

from tracking.published_study import MARK, size_of

STUDIES = Path(__file__).resolve().parent.parent / "studies"
PUBLISHED = sorted(path.parent for path in STUDIES.glob(f"*/{MARK}"))
LARGEST = 10_000_000
"""Bytes of a published study with all of its trials."""


def test_there_is_one() -> None:
    assert PUBLISHED


@pytest.mark.slow
@pytest.mark.parametrize("study", PUBLISHED, ids=lambda path: path.name)
def test_table_report_and_figures_are_made_again_byte_for_byte(study: Path, tmp_path: Path) -> None:
    copy = tmp_path / "studies" / study.name
    shutil.copytree(study, copy)
    outputs = [path for path in copy.iterdir() if path.suffix in (".md", ".tex", ".html", ".svg")]
    expected = {"table.md", "table.tex", "report.html", "ppl-against-flops.svg"}
    if any(study.glob("base-s*/result.json")):  # no row differs from a base that isn't finished
        expected.add("differences-ppl.svg")
    assert expected <= {path.name for path in outputs}
    for path in outputs:
        path.unlink()
    outcome = typed(tmp_path, "publish", "paths.runs=studies", f"sweep.name={study.name}")
    assert outcome.exit_code == 0, outcome.output
    assert _files(copy) == _files(study)
    different = [
        name for name in _files(study) if (copy / name).read_bytes() != (study / name).read_bytes()
    ]
    assert different == []


@pytest.mark.parametrize("study", PUBLISHED, ids=lambda path: path.name)
def test_a_published_study_is_small(study: Path) -> None:
    assert size_of(study) <= LARGEST


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
