"""Scores from sums of counts: exactly sacreBLEU's, and exactly those of the head of a statistics
file."""

import math
import random

import numpy as np
import pytest
import sacrebleu

from tracking.statistics import samples as counts
from tracking.statistics.samples import resampled_scores

WORDS = ["the", "dog", "sees", "a", "small", "cat", "and", "it", "runs", "over", "there"]
KINDS = {
    "ngram_precision": sacrebleu.BLEU(tokenize="none", force=True),
    "ngram_precision_unsmoothed": sacrebleu.BLEU(tokenize="none", force=True, smooth_method="none"),
    "ngram_f": sacrebleu.CHRF(),
}


def text(sentences: int, seed: int, longest: int = 12) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(generator.choices(WORDS, k=generator.randint(0, longest)))
        for _ in range(sentences)
    ]


def near(references: list[str], seed: int) -> list[str]:
    """The references with some words replaced, dropped and doubled."""
    generator = random.Random(seed)
    changed = lambda word: generator.choice([word] * 6 + ["", "other", f"{word} {word}"])  # noqa: E731
    return [" ".join(filter(None, map(changed, line.split()))) for line in references]


def counted(formula: str, hypotheses: list[str], references: list[str]) -> counts.Floats:
    rows = KINDS[formula]._extract_corpus_statistics(hypotheses, [references])
    return counts.counts([{"it": row} for row in rows], (formula, "it"))


@pytest.mark.parametrize("formula", KINDS)
@pytest.mark.parametrize(("sentences", "longest"), [(60, 12), (3, 3), (1, 2), (1, 0), (5, 1)])
def test_a_score_of_sums_is_that_of_sacrebleu(formula: str, sentences: int, longest: int) -> None:
    for seed in range(6):
        references = text(sentences, seed, longest)
        for hypotheses in (
            near(references, seed),
            text(sentences, seed + 100, longest),
            references,
        ):
            table = counted(formula, hypotheses, references)
            (score,) = counts.scores(formula, table.sum(0, keepdims=True), len(table))
            assert score == pytest.approx(
                KINDS[formula].corpus_score(hypotheses, [references]).score, abs=1e-9
            )


def test_one_sentence_is_scored_by_the_orders_that_it_has_as_in_sacrebleu() -> None:
    metric = sacrebleu.BLEU(tokenize="none", force=True, effective_order=True)
    references = text(80, 1, 6)
    hypotheses = near(references, 2)
    scores = counts.scores(
        "ngram_precision", counted("ngram_precision", hypotheses, references), 1, partly=True
    )
    pairs = zip(hypotheses, references, strict=True)
    expected = [metric.sentence_score(ours, [reference]).score for ours, reference in pairs]
    assert scores == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("formula", KINDS)
def test_resampling_agrees_with_that_of_sacrebleu(formula: str) -> None:
    from sacrebleu.significance import PairedTest, _bootstrap_resample

    draws = 300
    references = text(70, 5)
    metric = KINDS[formula]
    base = near(references, 6)
    candidate = near(references, 7)
    tables = [counted(formula, side, references) for side in (base, candidate)]
    resamples = resampled_scores(formula, tables, draws)
    for table, ours in zip(tables, resamples, strict=True):
        _, theirs = _bootstrap_resample(table.tolist(), metric, draws)
        assert ours == pytest.approx([score.score for score in theirs], rel=1e-5)  # float32 there
    systems = [("base", base), ("other", candidate)]
    _, results = PairedTest(systems, {"it": metric}, [references], "bs", n_samples=draws)()
    (theirs_base, theirs_other) = next(
        scores for name, scores in results.items() if name != "System"
    )
    size = np.abs(resamples[1] - resamples[0])
    larger = np.count_nonzero(size - size.mean() > abs(theirs_other.score - theirs_base.score))
    assert theirs_other.p_value == (larger + 1) / (draws + 1)


def test_simple_formulas_by_hand() -> None:
    lines = [{"right": 1, "nats": 2.0, "tokens": 4}, {"right": 0, "nats": 1.0, "tokens": 2}]
    for formula, fields, expected in (
        ("mean", ("right",), 0.5),
        ("ratio", ("nats", "tokens"), 0.5),
        ("exp_ratio", ("nats", "tokens"), math.exp(0.5)),
    ):
        table = counts.counts(lines, (formula, *fields))
        assert counts.scores(formula, table.sum(0, keepdims=True), 2) == pytest.approx([expected])
    assert math.isnan(counts.scores("ratio", np.zeros((1, 2)), 1)[0])
    assert counts.scores("exp_ratio", np.array([[1e9, 1.0]]), 1)[0] == pytest.approx(math.exp(700))


@pytest.mark.parametrize(
    ("formula", "lines", "fault"),
    [
        ("mean", [{"it": 1}, {}], "line 3 must have numbers as it, but has None"),
        ("mean", [{"it": [1, 2]}], "it has 2 counts, which mean cannot take"),
        (
            "ngram_f",
            [{"it": [1, 2, 3]}, {"it": [1, 2]}],
            "line 3 has 2 counts as it, but line 2 has 3",
        ),
        ("mean", [{"it": math.inf}], "line 2 has a count that is not finite"),
        (
            "ngram_precision",
            [{"it": [1, 2, 3]}],
            "it has 3 counts, which ngram_precision cannot take",
        ),
        ("ngram_precision", [{"it": [5, 5, None, 1]}], "line 2 must have numbers as it"),
    ],
)
def test_unusable_counts_are_named_with_their_line(
    formula: str, lines: list[dict[str, object]], fault: str
) -> None:
    with pytest.raises(ValueError, match=r"line|counts") as refused:
        counts.counts(lines, (formula, "it"))
    assert fault in str(refused.value)
