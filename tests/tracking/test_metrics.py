"""The table of metrics: one entry per score is enough."""

import pytest

from tracking import metrics, shapes
from tracking.describe import result_points
from tracking.metrics import METRICS, Metric, SetScores

CONTENT = {"nll": 1.5, "ppl": 4.5, "bleu": None, "bleu_paper": 29.0, "signature": "13a", "decode": {"beam": 4}}


def test_scores_are_read_from_json() -> None:
    scores = SetScores.of(CONTENT)
    assert scores.values == {"nll": 1.5, "ppl": 4.5, "bleu": None, "bleu_paper": 29.0, "chrf": None}
    assert (scores.signatures, scores.decode) == ({"bleu": "13a"}, {"beam": 4})
    assert SetScores.of({}) == SetScores(dict.fromkeys(METRICS), {}, {})


@pytest.mark.parametrize(("name", "best"), [("ppl", 4.0), ("bleu", 5.0)])
def test_the_best_value_is_the_lowest_or_the_highest_finite_one(name: str, best: float) -> None:
    assert METRICS[name].best([4.0, None, 5.0]) == best
    assert METRICS[name].best([None]) is None


def test_one_entry_is_enough_for_checks_and_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Metric("comet", "COMET", "0 to 1", "up", 3, of_translations=True, signature="comet_signature")
    monkeypatch.setitem(metrics.METRICS, "comet", entry)
    head = {"key": "k", "step": 9, "scores": CONTENT | {"comet": "0.8"}}
    assert shapes.statistics_head(head) == "comet must be a number"
    points = result_points({"step": 9, "scores": {"dev": CONTENT | {"comet": 0.8}}}, 0)
    assert ("dev/comet", 0.8) in [(point.name, point.value) for point in points]
