"""The published studies of the repository: what is committed is what their files give."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
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
QUARTER = {"d_model 256 (128 here)": "+, marked", "d_model 1024 (512 here)": "+, not marked"}
"""The perplexities that the text below the hypotheses expects at `quarter`, other than at `half`."""
SEVERAL = {"4, 16, 32 heads": 3}
"""Hypotheses about several rows, with their number."""


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


def test_the_document_compares_each_hypothesis_with_what_quarter_shows() -> None:
    _, found = _table(_section("Expected and found"))
    head, verdicts = _table(_verdicts())
    measured = [dict(zip(head, row, strict=True)) for row in verdicts if row[0] != "base"]
    assert len(found) == len(measured)
    for row, values, expected in zip(found, measured, _expected(), strict=True):
        assert row[1:] == [
            *_outcome(expected["PPL"], values["ΔPPL"], values["PPL: verdict"]),
            *_outcome(expected["BLEU"], values["ΔBLEU"], values["BLEU: verdict"]),
        ]


def test_the_document_has_the_counts_and_the_orders_of_quarter() -> None:
    table = _verdicts()
    head, rows = _table(table)
    columns = dict(zip(head, zip(*rows, strict=True), strict=True))
    marked = [sum(cell[-1] in "▲▼" for cell in columns[f"Δ{metric}"]) for metric in ("PPL", "BLEU")]
    ppl, bleu = (
        Counter(cell.partition(" (")[0] for cell in columns[f"{metric}: verdict"])
        for metric in ("PPL", "BLEU")
    )
    orders = re.findall(r"Spearman's ρ .+?\), Kendall's τ .+?\)", table)
    assert len(orders) == 2
    found = (
        f"{marked[0]} of 19 rows are marked as different from base in perplexity, and {marked[1]} in",
        f"{ppl['agrees']} rows agree with the paper in perplexity",
        f"{ppl['disagrees']} rows disagree, and {ppl['not shown']} differences are not shown:",
        f"In BLEU, {bleu['agrees']} rows agree and {bleu['not shown']} are not shown.",
        *orders,
    )
    document = " ".join((ROOT / "docs/table3.md").read_text("utf-8").split())
    assert [sentence for sentence in found if sentence not in document] == []


def _expected() -> Iterator[dict[str, str]]:
    """The expected perplexity and BLEU of each row at `quarter`, in the table's order."""
    _, hypotheses = _table(_section("Hypotheses"))
    for row, _, ppl, ppl_shows, bleu, bleu_shows, _ in hypotheses:
        expected = {
            "PPL": QUARTER.get(row, _expectation(ppl, ppl_shows)),
            "BLEU": _expectation(bleu, bleu_shows),
        }
        yield from [expected] * SEVERAL.get(row, 1)


def _expectation(sign: str, shows: str) -> str:
    return f"{sign}, {'marked' if shows == 'yes' else 'not marked'}"


def _outcome(expected: str, difference: str, verdict: str) -> tuple[str, str, str]:
    """Cells of the document: what was expected, the difference, in bold if it isn't as expected,
    and the verdict."""
    sign, _, mark = expected.partition(", ")
    is_marked = difference[-1] in "▲▼"
    as_expected = is_marked == (mark == "marked") and (not is_marked or difference[0] == sign)
    return expected, difference if as_expected else f"**{difference}**", verdict.split(" (")[0]


def _verdicts() -> str:
    """The table of `quarter` with its verdicts, in Markdown."""
    study = ("paths.runs=studies", "sweep.name=multi30k-quarter")
    return typed(ROOT, "table", "--verdict", "--format", "md", *study).output


def _section(heading: str) -> str:
    document = (ROOT / "docs/table3.md").read_text("utf-8")
    return document.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def _table(text: str) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of the first table in Markdown."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return head, rows


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
