"""How far rows share luck by seed is measured on scores whose correlation is known."""

from pathlib import Path

import numpy as np
import pytest
import scoring_studies as made

from benchmarks.shared_luck import correlation, shared_luck


@pytest.mark.parametrize("luck", [0.0, 0.5, 0.9])
def test_the_correlation_of_drawn_rows_is_found(luck: float) -> None:
    chance = np.random.default_rng(1)
    shared_noise = chance.normal(size=(1, 400))
    row_noise = chance.normal(size=(6, 400))
    values = np.sqrt(luck) * shared_noise + np.sqrt(1 - luck) * row_noise + np.arange(6)[:, None]
    estimate, p = correlation(values)
    assert estimate == pytest.approx(luck, abs=0.06)
    assert (p < 0.001) == (luck > 0)


def test_trained_rows_alone_count_at_the_seeds_that_all_have(tmp_path: Path) -> None:
    (bleu,) = [luck for luck in shared_luck(made.make(tmp_path / "study")) if luck.label == "BLEU"]
    assert (bleu.rows, bleu.seeds) == (3, 3), "base, deep and big, at seeds 1 to 3"
    values = np.array(
        [[made.BLEU[row][seed] for seed in (1, 2, 3)] for row in ("base", "deep", "big")]
    )
    assert bleu.correlation == pytest.approx(correlation(values)[0])
