"""Parameters and FLOPs of a configuration, by arithmetic alone (a multiply–add is 2 FLOPs)."""

from dataclasses import astuple, dataclass
from typing import assert_never

from transformer.config import ModelConfig


def attention_parameters(model: ModelConfig) -> int:
    """W^Q, W^K, W^V, W^O of one attention layer (section 3.2.2), and their biases; W^K has none."""
    d, h, k, v = model.d_model, model.n_heads, model.d_k, model.d_v
    weights = d * h * (2 * k + v) + h * v * d
    return weights + (h * (k + v) + d if model.attention_bias else 0)


def parameters(model: ModelConfig, vocab_size: int) -> int:
    """All trained numbers: one shared embedding and projection matrix, layers, learned positions."""
    d, ff, norm = model.d_model, model.d_ff, 2 * model.d_model
    feed_forward = 2 * d * ff + ff + d
    encoder_layer = attention_parameters(model) + feed_forward + 2 * norm
    decoder_layer = 2 * attention_parameters(model) + feed_forward + 3 * norm
    return vocab_size * d + model.n_layers * (encoder_layer + decoder_layer) + position_parameters(model)


def position_parameters(model: ModelConfig) -> int:
    """Two tables, source and target, if positions are learned (Table 3, row E)."""
    match model.positions:
        case "learned":
            return 2 * model.max_positions * model.d_model
        case "sinusoids":
            return 0
        case _:
            assert_never(model.positions)


@dataclass(frozen=True)
class Lengths:
    """Sums over sentences of n source and m target tokens: FLOPs depend only on these sums."""

    source: float = 0
    target: float = 0
    source_squared: float = 0
    target_squared: float = 0
    product: float = 0

    def __add__(self, other: "Lengths") -> "Lengths":
        return Lengths(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, factor: float) -> "Lengths":
        return Lengths(*(mine * factor for mine in astuple(self)))

    @staticmethod
    def of(n: float, m: float) -> "Lengths":
        """The sums for one pair of source and target lengths in pieces, end-of-sentence included."""
        return Lengths(n, m, n * n, m * m, n * m)


def forward_flops(model: ModelConfig, vocab_size: int, lengths: Lengths) -> float:
    """FLOPs of one forward pass over sentences with these lengths."""
    d, h, k, v, ff = model.d_model, model.n_heads, model.d_k, model.d_v, model.d_ff
    n, m = lengths.source, lengths.target
    per_token = 2 * d * h * (2 * k + v) + 2 * h * v * d + 4 * d * ff
    scores = 2 * h * (k + v)
    encoder = n * per_token + lengths.source_squared * scores
    decoder = m * per_token + lengths.target_squared * scores
    cross = 2 * m * d * h * k + 2 * n * d * h * (k + v) + 2 * m * h * v * d + lengths.product * scores
    return model.n_layers * (encoder + decoder + cross) + 2 * m * d * vocab_size


def training_flops(model: ModelConfig, vocab_size: int, lengths: Lengths) -> float:
    """FLOPs of forward and backward: three times the forward pass."""
    return 3 * forward_flops(model, vocab_size, lengths)


def planned_lengths(tokens_per_batch: int, steps: int, mean_source: float, mean_target: float) -> Lengths:
    """Lengths of a whole run if every sentence had the corpus's mean length and every batch were full."""
    sentences = steps * tokens_per_batch / max(mean_source, mean_target)
    return Lengths.of(mean_source, mean_target) * sentences
