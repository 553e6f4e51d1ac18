"""Dropout on the CPU draws its own bits: against the definition of dropout, and against torch's."""

import pytest
import torch

from transformer.model.on_cpu import dropout

ONES = torch.ones(1_000_003)  # not a multiple of the draws that share one random number


@pytest.mark.parametrize("p", [0.001, 0.1, 0.2, 0.5, 0.9, 0.999])
def test_the_share_that_is_dropped_is_p_and_the_mean_stays(p: float) -> None:
    torch.manual_seed(1)
    dropped = dropout(ONES, p)
    standard_error = (p * (1 - p) / len(ONES)) ** 0.5
    assert (dropped == 0).float().mean().item() == pytest.approx(p, abs=4 * standard_error + 2**-17)
    assert dropped.unique().tolist() == pytest.approx([0, 1 / (1 - p)], rel=2**-17 / (1 - p) * 1.1)


def test_dropped_elements_are_independent_of_their_neighbors() -> None:
    torch.manual_seed(1)
    mask = (dropout(ONES, 0.5) != 0).float() - 0.5
    for distance in (1, 2, 3, 4, 8, 64):
        correlation = (mask[distance:] * mask[:-distance]).mean() * 4
        assert abs(correlation.item()) < 5 / len(ONES) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_uses_the_same_mask_as_the_value(dtype: torch.dtype) -> None:
    x = torch.randn(40, 30, dtype=dtype, requires_grad=True)
    y = dropout(x, 0.3)
    y.backward(torch.ones_like(y))
    assert x.grad is not None
    assert y.dtype == x.grad.dtype == dtype
    torch.testing.assert_close(y, x * x.grad)
    assert 0 < (y == 0).sum() < y.numel()


def test_what_stays_in_bfloat16_is_scaled_before_it_is_rounded() -> None:
    x = torch.rand(1000, dtype=torch.bfloat16) + 1
    y = dropout(x, 0.1)
    scaled = (x.float() / 0.9).bfloat16()
    assert torch.equal(y[y != 0], scaled[y != 0])


def test_nothing_is_drawn_if_nothing_can_be_dropped() -> None:
    old_state = torch.get_rng_state()
    assert dropout(ONES, 0.0) is ONES
    assert dropout(ONES, 0.5, training=False) is ONES
    assert torch.equal(torch.get_rng_state(), old_state)
