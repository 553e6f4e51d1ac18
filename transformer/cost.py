"""Parameters and FLOPs of a configuration, by arithmetic alone (a multiply–add is 2 FLOPs)."""

from dataclasses import astuple, dataclass
from typing import assert_never

from transformer.config import ModelConfig, Precision


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


PROCESS_BYTES = {"cpu": 0.48e9, "cuda": 0.6e9}
"""Of a worker before its first step: Python with torch and Ray; of its GPU, the context of CUDA. Measured."""
BYTES_OF_STATE = 16
"""Per parameter: the weight, its gradient and Adam's two moments, 4 bytes each."""
KERNELS = {"bf16": 0.9e9, "fp32": 0.4e9}
"""Of oneDNN's kernels on a CPU, once as many exist as it keeps, and of what they reorder. Measured in a whole trial at
half, and in training at a quarter."""
ONEDNN_FROM = 128
"""d_model from which fp32 may use oneDNN, too: `transformer.training.precision.WORTH_IT`."""
LOGITS = 2_048
"""Target pieces whose logits exist at a time, in float32 with their gradients."""


def training_memory(model: ModelConfig, vocab_size: int, tokens: int, precision: Precision, device: str) -> float:
    """Bytes that a worker holds while it trains on micro-batches of ``tokens`` source and target pieces each.

    On a GPU these are bytes of the GPU. Activations are those that the backward pass needs, in float32 on a CPU.
    """
    state = BYTES_OF_STATE * parameters(model, vocab_size)
    logits = 2 * 4 * min(tokens, LOGITS) * vocab_size
    activations = 4 * tokens * _kept_per_pair_of_pieces(model)
    uses_onednn = device == "cpu" and (precision == "bf16" or model.d_model >= ONEDNN_FROM)
    kernels = KERNELS[precision] if uses_onednn else 0.0
    return PROCESS_BYTES[device] + state + logits + activations + kernels


def _kept_per_pair_of_pieces(model: ModelConfig) -> float:
    """Numbers that the backward pass needs of one source and one target piece, in all layers."""
    d, h, k, v, ff = model.d_model, model.n_heads, model.d_k, model.d_v, model.d_ff
    attention = h * (2 * k + 2 * v) + 3 * d
    feed_forward = 2 * ff + 3 * d
    return model.n_layers * (3 * attention + 2 * feed_forward)
