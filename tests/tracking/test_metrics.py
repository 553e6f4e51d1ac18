"""A task's metrics: one entry per score is enough."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tracking import shapes
from tracking.card import Card
from tracking.describe import result_points
from tracking.metrics import Metric, SetScores
from tracking.translation_card import TRANSLATION

METRICS = {metric.name: metric for metric in TRANSLATION.metrics}

CONTENT = {"nll": 1.5, "ppl": 4.5, "bleu": None, "bleu_paper": 29.0, "signature": "13a", "decode": {"beam": 4}}


def test_scores_are_read_from_json() -> None:
    scores = TRANSLATION.scores(CONTENT)
    assert scores.values == {"nll": 1.5, "ppl": 4.5, "bleu": None, "bleu_paper": 29.0, "chrf": None}
    assert (scores.signatures, scores.decode) == ({"bleu": "13a"}, {"beam": 4})
    assert TRANSLATION.scores({}) == SetScores(dict.fromkeys(METRICS), {}, {})


@pytest.mark.parametrize(("name", "best"), [("ppl", 4.0), ("bleu", 5.0)])
def test_the_best_value_is_the_lowest_or_the_highest_finite_one(name: str, best: float) -> None:
    assert METRICS[name].best([4.0, None, 5.0]) == best
    assert METRICS[name].best([None]) is None


def test_one_entry_is_enough_for_checks_and_mlflow() -> None:
    entry = Metric("comet", "COMET", "0 to 1", "up", 3, signature="comet_signature")
    card = replace(TRANSLATION, metrics=(*TRANSLATION.metrics, entry))
    head = {"key": "k", "step": 9, "scores": CONTENT | {"comet": "0.8"}}
    assert shapes.statistics_head(head, card) == "comet must be a number"
    points = result_points(card, {"step": 9, "scores": {"dev": CONTENT | {"comet": 0.8}}}, 0)
    assert ("final/comet", 0.8) in [(point.name, point.value) for point in points]


def test_perplexity_is_the_exponential_of_another_metric() -> None:
    ppl, bleu = METRICS["ppl"], METRICS["bleu"]
    assert (TRANSLATION.tested(ppl).name, TRANSLATION.tested(bleu).name) == ("nll", "bleu")
    assert Card.of(json.loads(json.dumps(TRANSLATION.to_dict()))) == TRANSLATION


def test_older_metrics_have_neutral_values() -> None:
    older = Metric.of({"name": "ppl", "better": "down"})
    assert (older.exp_of, older.negligible, older.margin) == (None, 0.0, None)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"exp_of": "loss"}, "metric 'x' must be exp_of another metric on the set dev, but is of 'loss'"),
        ({"exp_of": "x"}, "metric 'x' must be exp_of another metric on the set dev, but is of 'x'"),
        ({"exp_of": "ppl"}, "metric 'x' must be exp_of another metric on the set dev, but is of 'ppl'"),
        ({"exp_of": "nll", "set": "test"}, "metric 'x' must be exp_of another metric on the set test, but is of 'nll'"),
        ({"exp_of": 3}, "metric 'x' must have text as its exp_of"),
        ({"negligible": -0.1}, "metric 'x' must have a number from 0 as its negligible"),
        ({"negligible": None}, "metric 'x' must have a number from 0 as its negligible"),
        ({"margin": "0.5"}, "metric 'x' must have a number from 0 as its margin"),
        ({"margin": float("nan")}, "metric 'x' must have a number from 0 as its margin"),
        ({"exp_of": "nll", "negligible": 0, "margin": 0.5}, None),
    ],
    ids=str,
)
def test_faults_of_what_tests_use(fields: dict[str, Any], fault: str | None) -> None:
    card = replace(TRANSLATION, metrics=(*TRANSLATION.metrics, Metric("x", **fields)))
    assert card.faults() == ([fault] if fault else [])
