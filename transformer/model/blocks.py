"""Encoder and decoder layers, post-norm: LayerNorm(x + Dropout(Sublayer(x))) (sections 3.1, 3.3, 5.4)."""

from torch import Tensor, nn
from torch.nn import functional as F

from transformer.config import ModelConfig
from transformer.model.attention import CrossAttention, KeyValue, Mask, SelfAttention
from transformer.model.dropout import dropout


class Residual(nn.Module):
    """LayerNorm(x + Dropout(y)), where y is a sub-layer's output for x."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.p_drop = model.p_drop
        self.norm = nn.LayerNorm(model.d_model)

    def forward(self, x_BTD: Tensor, y_BTD: Tensor) -> Tensor:
        normed: Tensor = self.norm(x_BTD + dropout(y_BTD, self.p_drop, self.training))
        return normed


class FeedForward(nn.Module):
    """max(0, xW₁ + b₁)W₂ + b₂ (section 3.3)."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.relu_dropout = model.relu_dropout
        self.inner = nn.Linear(model.d_model, model.d_ff)
        self.outer = nn.Linear(model.d_ff, model.d_model)

    def forward(self, x_BTD: Tensor) -> Tensor:
        hidden_BTF = dropout(F.relu(self.inner(x_BTD)), self.relu_dropout, self.training)
        out_BTD: Tensor = self.outer(hidden_BTF)
        return out_BTD


class EncoderLayer(nn.Module):
    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.attention, self.attention_residual = SelfAttention(model), Residual(model)
        self.feed_forward, self.feed_forward_residual = FeedForward(model), Residual(model)

    def forward(self, x_BSD: Tensor, mask: Mask) -> Tensor:
        attended, _ = self.attention(x_BSD, mask)
        x_BSD = self.attention_residual(x_BSD, attended)
        out_BSD: Tensor = self.feed_forward_residual(x_BSD, self.feed_forward(x_BSD))
        return out_BSD


class DecoderLayer(nn.Module):
    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.attention, self.attention_residual = SelfAttention(model), Residual(model)
        self.cross, self.cross_residual = CrossAttention(model), Residual(model)
        self.feed_forward, self.feed_forward_residual = FeedForward(model), Residual(model)

    def forward(
        self,
        x_BTD: Tensor,
        memory: KeyValue,
        source_mask: Mask,
        target_mask: Mask,
    ) -> Tensor:
        attended, _ = self.attention(x_BTD, target_mask)
        return self._after_attention(x_BTD, attended, memory, source_mask)

    def step(
        self, x_BND: Tensor, memory: KeyValue, source_mask: Mask, past: KeyValue | None
    ) -> tuple[Tensor, KeyValue]:
        """One position of N outputs of each source: they share the source's memory, and each sees only its own past.

        Returns the layer's output [B, N, D], and the keys and values [B·N, H, S, ·] to pass as ``past`` next time.
        """
        attended, present = self.attention(x_BND.flatten(0, 1)[:, None], None, past)
        return self._after_attention(x_BND, attended.view_as(x_BND), memory, source_mask), present

    def _after_attention(self, x_BTD: Tensor, attended: Tensor, memory: KeyValue, source_mask: Mask) -> Tensor:
        x_BTD = self.attention_residual(x_BTD, attended)
        x_BTD = self.cross_residual(x_BTD, self.cross(x_BTD, memory, source_mask))
        out_BTD: Tensor = self.feed_forward_residual(x_BTD, self.feed_forward(x_BTD))
        return out_BTD
