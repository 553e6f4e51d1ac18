"""The published studies of the repository: what is committed is what their files give."""

import shutil
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from typed import typed

from sweeps.config.schema import Schema
from sweeps.trees import dotted, nested
from tracking.published_study import MARK, size_of
from transformer.task import TRANSLATION

ROOT = Path(__file__).resolve().parent.parent
STUDIES = ROOT / "studies"
PUBLISHED = sorted(path.parent for path in STUDIES.glob(f"*/{MARK}"))
LARGEST = 10_000_000
"""Bytes of a published study with all of its trials."""
DESIGN = "ad3460a8ca7f99e1846745f1b52d4703b3df4e8a63838b833d26c2d342ac36c1"
"""SHA-256 of design and hypotheses as they were committed before the first trial (ebd91b5a), with
single spaces."""


def test_there_is_one() -> None:
    assert PUBLISHED


def test_design_and_hypotheses_are_those_from_before_the_first_trial() -> None:
    _, heading, text = (ROOT / "docs/table3.md").read_text("utf-8").partition("## Design")
    words = " ".join((heading + text).split())
    assert sha256(words.encode()).hexdigest() == DESIGN


@pytest.mark.parametrize("study", PUBLISHED, ids=lambda path: path.name)
def test_settings_of_published_trials_still_have_their_keys(study: Path) -> None:
    schema = Schema.of(TRANSLATION)
    recorded = {}
    todays = {}
    for path in study.glob("*/config.yaml"):
        tree = yaml.safe_load(path.read_text("utf-8"))
        groups = {name: tree[name] for name in schema.groups if name in tree}
        config = schema.config(nested(schema.neutral | dotted(groups)))
        recorded[path.parent.name] = tree["key"]
        todays[path.parent.name] = schema.trial_key(
            config, config.train.seed, TRANSLATION.fingerprint(config)
        )
    assert recorded
    assert todays == recorded


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


@pytest.mark.parametrize("study", PUBLISHED, ids=lambda path: path.name)
def test_a_comparison_shows_nll_and_still_follows_a_lock_of_ppl(study: Path) -> None:
    rows = ("base", "c_layers_2")
    outcome = typed(ROOT, "compare", *rows, "paths.runs=studies", f"sweep.name={study.name}")
    text = " ".join(outcome.output.split())
    assert "NLL" in text
    assert "Follows its lock" in text, text


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
