"""Our softmax in separate steps equals torch's softmax."""

import math

import pytest
import torch

from transformer.model.attention import ONE_VECTOR, softmax


@pytest.mark.parametrize("length", [1, 2, ONE_VECTOR - 1, ONE_VECTOR, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_and_gradients_are_torchs(length: int, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    drawn = (torch.randn(5, 3, 7, length) * 20).to(dtype)
    drawn[..., 1:].masked_fill_(torch.rand(5, 3, 7, length - 1) < 0.3, -math.inf)
    ours, theirs = (drawn.clone().requires_grad_() for _ in range(2))
    found, expected = softmax(ours), torch.softmax(theirs, -1, dtype=torch.float32)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
    weights = torch.randn_like(found)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    assert ours.grad is not None
    assert ours.grad.dtype == dtype
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_large_scores_do_not_overflow() -> None:
    assert torch.equal(softmax(torch.tensor([1e38, 1e38, -1e38])), torch.tensor([0.5, 0.5, 0.0]))
