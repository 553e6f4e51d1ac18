"""`allelse compare`: two trials, rows or studies, as a person types them."""

import json
import shutil
from math import exp
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import sentence_studies
from compared_studies import SIZE, sweep, write_studies
from typed import printed, refusal

from tracking.card import Metric
from tracking.statistics.samples import EvaluatedSet
from tracking.statistics.side_comparison import samples_by_difference
from tracking.study import StudyTrial

ONE = "sweep.name=one"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only read; a test that changes it takes ``own``."""
    return write_studies(tmp_path_factory.mktemp("compared").resolve())


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(folder, tmp_path / "own").resolve()


def content(folder: Path, *words: str) -> Any:
    return json.loads(printed(folder, "compare", *words, "--json"))


def metric(comparison: Any, name: str) -> Any:
    return next(entry for entry in comparison["pairs"][0]["metrics"] if entry["metric"] == name)


def test_two_rows_show_settings_both_kinds_of_chance_and_sentences(folder: Path) -> None:
    text = printed(folder, "compare", "base", "a_heads_1", ONE)
    for words in (
        "base and a_heads_1: differences are a_heads_1 − base",
        "model.n_heads",
        "test over seeds",
        "test over sentences",
        "worse",
        "over the 2 rows of the study, as in the table",
        "seed 3:",
        "The 10 sentences that differ most (BLEU on dev, seed 1)",
        "source",
        "reference",
        "a_heads_1-s1",
        "Each test covers one source of variation: seeds or sentences.",
    ):
        assert words in text
    assert text.splitlines()[-1] == f"Next: allelse table {ONE}"


def scores_of(folder: Path, row: str, name: str) -> list[float]:
    """On dev, of each seed."""
    scores = []
    for seed in (1, 2, 3):
        result = json.loads((folder / f"runs/one/{row}-s{seed}/result.json").read_text())
        scores.append(result["scores"]["dev"][name])
    return scores


def test_the_numbers_are_those_of_the_results(folder: Path) -> None:
    comparison = content(folder, "base", "a_heads_1", ONE)
    rows = ("base", "a_heads_1")
    for name in ("nll", "ppl", "bleu", "bleu_paper", "chrf"):
        entry = metric(comparison, name)
        if name == "ppl":
            means = [exp(mean(scores_of(folder, row, "nll"))) for row in rows]
        else:
            means = [mean(scores_of(folder, row, name)) for row in rows]
        assert entry["means"] == pytest.approx(means)
        assert entry["difference"] == pytest.approx(means[1] - means[0])
        assert entry["over_seeds"]["low"] < entry["difference"] < entry["over_seeds"]["high"]
        for seed in (1, 2, 3):
            test = entry["over_samples"][f"seed {seed}"]
            first, second = (scores_of(folder, row, name)[seed - 1] for row in rows)
            assert test["difference"] == pytest.approx(second - first)
            assert test["samples"] == SIZE
    assert list(comparison["pairs"][0]["configuration"]) == [
        "model.n_heads",
        "model.d_k",
        "model.d_v",
    ]


def test_the_most_different_sentences_are_those_of_the_files(folder: Path) -> None:
    samples = content(folder, "base-s2", "a_heads_1-s2", ONE, "--set", "test")["samples"]
    assert (samples["metric"], samples["set"], samples["trials"]) == (
        "bleu",
        "test",
        ["base-s2", "a_heads_1-s2"],
    )
    sizes = [abs(sentence["difference"]) for sentence in samples["differing"]]
    assert (len(sizes), sizes) == (10, sorted(sizes, reverse=True))
    for sentence in samples["differing"]:
        lines = {
            "source": folder / "test.txt",
            "reference": folder / "test.txt",
            "base-s2": folder / "runs/one/base-s2/hypotheses/test.txt",
            "a_heads_1-s2": folder / "runs/one/a_heads_1-s2/hypotheses/test.txt",
        }
        expected = {
            name: path.read_text().splitlines()[sentence["place"] - 1]
            for name, path in lines.items()
        }
        assert sentence["texts"] == expected


@pytest.mark.parametrize("names", [("one", "two"), ("runs/one", "runs/two")])
def test_two_studies_row_by_row(folder: Path, names: tuple[str, str]) -> None:
    comparison = content(folder, *names)
    rows = [(pair["first"]["name"], pair["second"]["name"]) for pair in comparison["pairs"]]
    assert rows == [("one/base", "two/base"), ("one/a_heads_1", "two/a_heads_1")]
    assert comparison["not_compared"] == {"first": ["a_heads_4"], "second": []}
    assert "train.warmup_steps" in comparison["pairs"][0]["configuration"]
    text = printed(folder, "compare", *names)
    assert "one and two: differences are two − one" in text
    assert "Not compared (finished in only one study, or diverged): a_heads_4 of one" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "compare is missing"),
        (("base",), "compare names only base must be two trials"),
        (("base", "big", "a_heads_1"), "compare names base, big, a_heads_1"),
        (
            ("base", "a_heads_2"),
            'is "a_heads_2", but the rows of one are base, a_heads_1, a_heads_4',
        ),
        (("base", "heads_1"), "did you mean a_heads_1?"),
        (("base", "base"), "base and base are the same"),
        (("one", "base"), "are a whole study, one, and a row or trial, base"),
        (("one", "base"), "did you mean one/base?"),
        (("base", "a_heads_1", "--metric", "blue"), "did you mean bleu?"),
        (("base", "a_heads_1", "--set", "tset"), "did you mean test?"),
        (("base", "tow/base"), 'is "tow/base"'),
        (("base", "two/bse"), "but the rows of two are base, a_heads_1"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    folder: Path, words: tuple[str, ...], message: str
) -> None:
    assert message in refusal(folder, "compare", *words, ONE)


def test_unfinished_trials_are_refused_with_their_state(own: Path) -> None:
    (own / "runs/one/a_heads_1-s1/result.json").unlink()
    message = refusal(own, "compare", "base-s1", "a_heads_1-s1", ONE)
    assert "a_heads_1-s1 is interrupted must be finished" in message
    assert f"`allelse sweep {ONE}` resumes it" in message
    assert metric(content(own, "base", "a_heads_1", ONE), "bleu")["seeds"] == [3, 2]
    for seed in (2, 3):
        (own / f"runs/one/a_heads_1-s{seed}/result.json").unlink()
    assert "a_heads_1 is interrupted" in refusal(own, "compare", "base", "a_heads_1", ONE)


def test_other_data_is_said(own: Path) -> None:
    (own / "dev.txt").write_text("a b c\n" * SIZE)
    sweep(own, "sweep.name=three", "sweep.rows=[base]")
    comparison = content(own, "one/base-s1", "three/base")
    assert "data" in comparison["pairs"][0]["configuration"]
    assert "different sentences" in metric(comparison, "bleu")["over_samples"]["seed 1"]["untested"]


def test_a_task_without_texts_names_samples_by_their_place(tmp_path: Path) -> None:
    sentence_studies.make(tmp_path / "runs/reading", {"base": 0.5, "deep": 0.9}, (1, 2, 3))
    text = printed(tmp_path, "compare", "base", "deep", "sweep.name=reading")
    for words in (
        "test over samples",
        "trials have no counts for memory",
        "The 10 samples that differ most",
        "by its place in the set",
    ):
        assert words in " ".join(text.split())


def test_studies_of_two_tasks_are_refused(own: Path) -> None:
    sentence_studies.make(own / "runs/reading", {"base": 0.5}, (1,))
    assert "one and reading belong to different tasks, translation and reading" in refusal(
        own, "compare", "one", "reading"
    )


def test_a_side_that_diverged_is_refused_as_such(own: Path) -> None:
    path = own / "runs/one/base-s2/result.json"
    result = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(result | {"diverged": 40}), "utf-8")
    message = refusal(own, "compare", "base-s1", "base-s2", ONE)
    assert "base-s2 diverged (seed 2)" in message
    assert "must have a trial that finished and didn't diverge" in message


def test_samples_without_a_score_are_not_among_those_that_differ() -> None:
    """A sample of no tokens has no mean loss."""
    counts = [[4.0, 2.0], [0.0, 0.0], [9.0, 3.0]]
    others = [[4.0, 1.0], [0.0, 0.0], [9.0, 4.0]]
    loss = Metric("loss", better="down", from_counts=("ratio", "nats", "tokens"))
    first, second = (
        EvaluatedSet(StudyTrial("base", "base", "", 1, "key", {}), 2.0, "", "", np.array(lines))
        for lines in (counts, others)
    )
    samples = samples_by_difference(loss, first, second)
    assert [sample.place for sample in samples] == [1, 3]
