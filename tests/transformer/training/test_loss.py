"""The fused projection and cross-entropy against the written-out formula."""

import pytest
import torch
from small_trials import small_model
from torch import Tensor

from transformer.data.vocabulary import PAD
from transformer.model.encoder_decoder import Transformer
from transformer.training import loss as loss_module
from transformer.training.loss import summed_loss


@pytest.fixture(autouse=True, params=["as on a CPU", "as on a GPU"])
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "as on a GPU":
        monkeypatch.setattr(loss_module, "_over_real_cells", loss_module._over_all_cells)


def plain(embedding: Tensor, output: Tensor, target: Tensor, epsilon: float) -> Tensor:
    """−Σ q·log p with q = 1 − ε on the gold piece and ε/(P − 1) on every other, piece by piece."""
    total = torch.zeros((), dtype=torch.float64)
    log_p = torch.log_softmax(output.double() @ embedding.double().T, -1)
    for row, sentence in enumerate(target.tolist()):
        for column, gold in enumerate(sentence):
            if gold != PAD:
                q = torch.full(
                    (len(embedding),), epsilon / (len(embedding) - 1), dtype=torch.float64
                )
                q[gold] = 1 - epsilon
                total = total - (q * log_p[row, column]).sum()
    return total


def example(padded: bool) -> tuple[Transformer, Tensor, Tensor]:
    model = small_model(vocab_size=30)
    target = torch.randint(1, 30, (4, 6))
    if padded:
        target[1, 2:] = PAD
        target[3, 1:] = PAD
    return model, (torch.randn(4, 6, 16) * 2).requires_grad_(), target


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("logits_at_once", [1, 90, 4_000_000])
def test_loss_and_gradients_equal_the_formula(
    padded: bool, epsilon: float, logits_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "LOGITS_AT_ONCE", logits_at_once)
    monkeypatch.setattr(loss_module, "LOGITS_AT_ONCE_ON_GPU", logits_at_once)
    model, output, target = example(padded)
    expected = plain(model.embedding, output, target, epsilon)
    gradients = torch.autograd.grad(expected, [output, model.embedding])
    loss = summed_loss(model, output, target, epsilon)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    (loss * 3).backward()
    for parameter, gradient in zip((output, model.embedding), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, 3 * gradient.float(), rtol=1e-5, atol=2e-6)


def test_padding_gets_no_gradient() -> None:
    model, output, target = example(padded=True)
    summed_loss(model, output, target, 0.1).backward()
    assert output.grad is not None
    assert ((output.grad == 0).all(-1) == (target == PAD)).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_a_gold_piece_of_vanishing_probability_has_a_finite_loss(epsilon: float) -> None:
    model = small_model(vocab_size=30)
    output = torch.zeros(1, 1, 16)
    with torch.no_grad():
        model.embedding.zero_()
        model.embedding[7, 0] = 1.0
        output[0, 0, 0] = 500.0
    target = torch.tensor([[4]])
    expected = plain(model.embedding, output, target, epsilon).item()
    assert summed_loss(model, output, target, epsilon).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_bf16_stays_close_to_fp32(epsilon: float) -> None:
    model, output, target = example(padded=True)
    exact = summed_loss(model, output, target, epsilon)
    expected = torch.autograd.grad(exact, [output, model.embedding])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = summed_loss(model, output, target, epsilon)
    gradients = torch.autograd.grad(rough, [output, model.embedding])
    assert rough.dtype == torch.float32
    assert not torch.equal(rough, exact)
    assert rough.item() == pytest.approx(exact.item(), rel=0.01)
    for rough_gradient, gradient in zip(gradients, expected, strict=True):
        assert rough_gradient.dtype == torch.float32
        assert (rough_gradient - gradient).norm() < 0.02 * gradient.norm()
