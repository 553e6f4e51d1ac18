"""The learning rate against values computed by hand."""

from dataclasses import replace

import pytest
from small_trials import TRAIN

from transformer.training.optimizer import learning_rate

PAPER = replace(TRAIN, warmup_steps=4000)


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (1, 1.746928e-07),  # 512^-0.5 · 4000^-1.5
        (1000, 1.746928e-04),
        (4000, 6.987712e-04),  # 512^-0.5 · 4000^-0.5
        (16000, 3.493856e-04),  # half the peak after four times the steps
        (100_000, 1.397542e-04),
    ],
)
def test_the_papers_learning_rate_at_base(step: int, rate: float) -> None:
    assert learning_rate(PAPER, 512, step) == pytest.approx(rate, rel=1e-6)


def test_it_grows_linearly_and_then_falls_as_the_root_with_its_peak_at_the_end_of_warm_up() -> None:
    train = replace(PAPER, warmup_steps=9)
    rates = [learning_rate(train, 16, step) for step in range(1, 40)]
    assert max(rates) == rates[8] == pytest.approx(0.25 / 3)
    assert rates[:9] == pytest.approx([rates[0] * step for step in range(1, 10)])
    assert rates[8:] == pytest.approx([0.25 * step**-0.5 for step in range(9, 40)])


def test_the_factor_multiplies_every_step() -> None:
    for step in (1, 4000, 20_000):
        doubled = learning_rate(replace(PAPER, lr_factor=2.0), 512, step)
        assert doubled == pytest.approx(2 * learning_rate(PAPER, 512, step))
