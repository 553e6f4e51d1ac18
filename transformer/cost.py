"""Parameters, FLOPs and memory of a configuration, computed from its sizes.

A multiply–add is 2 FLOPs.
"""

from dataclasses import astuple, dataclass, replace
from typing import assert_never

from transformer.config import DecodeConfig, ModelConfig, Precision
from transformer.window import Window


def projection_weights(model: ModelConfig) -> int:
    """W^Q, W^K, W^V and W^O of one attention layer (section 3.2.2)."""
    d = model.d_model
    h = model.n_heads
    k, v = model.d_k, model.d_v
    return d * h * (2 * k + v) + h * v * d


def attention_parameters(model: ModelConfig) -> int:
    """The weights of one attention layer, and their biases; W^K has none.

    Additive scores have one more vector per head.
    """
    h = model.n_heads
    k, v = model.d_k, model.d_v
    weights = projection_weights(model)
    if model.attention_score == "additive":
        weights += h * k
    biases = h * (k + v) + model.d_model if model.attention_bias else 0
    return weights + biases


def parameters(model: ModelConfig, vocab_size: int) -> int:
    """The number of trained numbers: the shared embedding, layers, learned positions."""
    d = model.d_model
    ff = model.d_ff
    norm = 2 * d
    feed_forward = 2 * d * ff + ff + d
    encoder_layer = encoder_sublayer_parameters(model) + feed_forward + 2 * norm
    decoder_layer = 2 * attention_parameters(model) + feed_forward + 3 * norm
    embedding = vocab_size * d
    layers = model.n_layers * (encoder_layer + decoder_layer)
    return embedding + layers + position_parameters(model)


def encoder_sublayer_parameters(model: ModelConfig) -> int:
    """What an encoder layer has before its feed-forward part: attention, or its substitute."""
    d = model.d_model
    match model.encoder_layer:
        case "attention":
            return attention_parameters(model)
        case "recurrent":
            units = d // 2
            gates = 4 * units
            return 2 * gates * (d + units + 2)  # torch has two biases per gate
        case "convolutional":
            return model.kernel * d * d
        case "separable":
            return model.kernel * d + d * d
        case _:
            assert_never(model.encoder_layer)


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
    """Sums over sentences of n source and m target pieces. FLOPs depend only on these sums.

    Checkpoints of earlier versions lack the last ones, which their models do not need.
    """

    source: float = 0
    target: float = 0
    source_squared: float = 0
    target_squared: float = 0
    product: float = 0
    sentences: float = 0
    source_windows: float = 0  # queries × keys that restricted self-attention multiplies
    target_windows: float = 0

    def __add__(self, other: "Lengths") -> "Lengths":
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Lengths(*(mine + its for mine, its in pairs))

    def __mul__(self, factor: float) -> "Lengths":
        return Lengths(*(length * factor for length in astuple(self)))

    @staticmethod
    def of(n: float, m: float, radius: int | None = None) -> "Lengths":
        """The sums for one pair of n source and m target pieces, end-of-sentence included.

        ``radius`` is that of the model's restricted attention.
        """
        lengths = Lengths(n, m, n * n, m * m, n * m, sentences=1)
        if radius is None:
            return lengths
        source_windows = Window(radius, causal=False).cells(n)
        target_windows = Window(radius, causal=True).cells(m)
        return replace(lengths, source_windows=source_windows, target_windows=target_windows)


def forward_flops(model: ModelConfig, vocab_size: int, lengths: Lengths) -> float:
    """FLOPs of one forward pass over sentences with these lengths."""
    d = model.d_model
    ff = model.d_ff
    h = model.n_heads
    k, v = model.d_k, model.d_v
    n, m = lengths.source, lengths.target
    feed_forward = 4 * d * ff
    projections = 2 * projection_weights(model)
    scores = 2 * h * (k + v)
    encoder = n * feed_forward + _encoder_sublayer_flops(model, lengths)
    restricted = model.attention_window is not None
    target_cells = lengths.target_windows if restricted else lengths.target_squared
    decoder = m * (projections + feed_forward) + target_cells * scores
    cross_projections = 2 * m * d * h * k + 2 * n * d * h * (k + v) + 2 * m * h * v * d
    cross = cross_projections + lengths.product * scores
    return model.n_layers * (encoder + decoder + cross) + 2 * m * d * vocab_size


def _encoder_sublayer_flops(model: ModelConfig, lengths: Lengths) -> float:
    """FLOPs of an encoder layer before its feed-forward part: attention, or its substitute."""
    d = model.d_model
    h = model.n_heads
    k, v = model.d_k, model.d_v
    n = lengths.source
    match model.encoder_layer:
        case "attention":
            projections = 2 * projection_weights(model)
            restricted = model.attention_window is not None
            source_cells = lengths.source_windows if restricted else lengths.source_squared
            return n * projections + source_cells * 2 * h * (k + v)
        case "recurrent":
            return n * 12 * d * d  # 2 directions, 4 gates, d + d/2 inputs of each of d/2 units
        case "convolutional":
            return n * 2 * model.kernel * d * d
        case "separable":
            return n * (2 * model.kernel * d + 2 * d * d)
        case _:
            assert_never(model.encoder_layer)


def training_flops(model: ModelConfig, vocab_size: int, lengths: Lengths) -> float:
    """FLOPs of forward and backward: three times the forward pass.

    The states from which recurrent layers start are no parameters, so they have no gradient.
    """
    flops = 3 * forward_flops(model, vocab_size, lengths)
    if model.encoder_layer == "recurrent":
        flops -= model.n_layers * lengths.sentences * 4 * model.d_model**2
    return flops


def planned_lengths(
    tokens_per_batch: int,
    steps: int,
    mean_source: float,
    mean_target: float,
    radius: int | None = None,
) -> Lengths:
    """Lengths of a whole run with full batches, in which every sentence has the mean length.

    ``radius`` is that of the model's restricted attention.
    """
    sentences = steps * tokens_per_batch / max(mean_source, mean_target)
    return Lengths.of(mean_source, mean_target, radius) * sentences


PROCESS_BYTES = {"cpu": 0.48e9, "cuda": 0.6e9}
"""Bytes of a worker before its first step, measured: Python with torch and Ray, CUDA's context."""
BYTES_OF_STATE = 16
"""Bytes per parameter: the weight, its gradient and Adam's two moments, 4 bytes each."""
KEPT = 10
"""Memory that oneDNN's kernels fill and break into pieces on a CPU, as a multiple of the logits and
activations of a micro-batch: each shape has its own kernels.

This and the next two were fitted to whole trials at quarter, half and tiny
(``tests/transformer/test_cost.py``).
"""
MOST_KEPT = 1.4e9
"""Bytes of it once the cache of kernels is full."""
KEPT_WITHOUT_ONEDNN = 3
ONEDNN_FROM = 128
"""The d_model from which fp32 may also use oneDNN: `transformer.training.precision.WORTH_IT`."""
LARGEST_SLICE = 64 * 2**20
"""Bytes of the sums of additive scores in memory at a time, unless one query needs more."""
LOGITS = {"cpu": 20_000_000, "cuda": 2**27}
"""Most logits in memory at a time, from the limits in `transformer.training.loss`."""
BYTES_OF_LOGIT = 8
"""A logit, its probability and its gradient: 4 + 4 bytes, or 2 + 4 + 2 in bf16."""


@dataclass(frozen=True)
class MicroBatch:
    """As many source as target ``tokens``, in sentences of this mean ``length``."""

    tokens: int
    length: float = 25.0


def training_memory(
    model: ModelConfig,
    vocab_size: int,
    batch: MicroBatch,
    precision: Precision,
    device: str,
) -> float:
    """Bytes that a worker holds while it trains; on "cuda", bytes of its GPU.

    Activations are those that the backward pass needs, in float32.
    """
    logits = BYTES_OF_LOGIT * min(batch.tokens * vocab_size, LOGITS[device])
    step = logits + 4 * batch.tokens * _activations_per_pair_of_pieces(model)
    memory = resting_memory(model, vocab_size, device) + step
    if device == "cpu":
        memory += _kept_bytes(model, precision, step)
    if model.attention_score == "additive":
        memory += _additive_bytes(model, batch)
    return memory


def resting_memory(model: ModelConfig, vocab_size: int, device: str) -> float:
    """Bytes that a worker holds between two steps."""
    return PROCESS_BYTES[device] + BYTES_OF_STATE * parameters(model, vocab_size)


def _kept_bytes(model: ModelConfig, precision: Precision, step: float) -> float:
    """Bytes that a process on a CPU keeps after steps that need ``step`` bytes."""
    uses_onednn = precision == "bf16" or model.d_model >= ONEDNN_FROM
    return min(KEPT * step, MOST_KEPT) if uses_onednn else KEPT_WITHOUT_ONEDNN * step


def decoding_memory(
    model: ModelConfig,
    vocab_size: int,
    batch: MicroBatch,
    decode: DecodeConfig,
    precision: Precision,
    device: str,
) -> float:
    """Bytes that a worker holds while it translates sentences of ``batch`` with beam search: keys
    and values of each layer, if all hypotheses reach their limit, and logits."""
    hypotheses = decode.beam * batch.tokens / batch.length
    positions = batch.length + decode.max_extra
    width = model.n_layers * model.n_heads * (model.d_k + model.d_v)
    bytes_per_number = 2 if precision == "bf16" else 4
    cache = bytes_per_number * hypotheses * positions * width
    logits = (bytes_per_number + 4) * hypotheses * vocab_size
    return resting_memory(model, vocab_size, device) + cache + logits


def _activations_per_pair_of_pieces(model: ModelConfig) -> float:
    """Numbers that the backward pass needs of one source and one target piece, in all layers."""
    d = model.d_model
    ff = model.d_ff
    h = model.n_heads
    k, v = model.d_k, model.d_v
    attention = h * (2 * k + 2 * v) + 3 * d
    encoder = {
        "attention": attention,
        "recurrent": 8 * d,  # gates, cells and outputs
        "convolutional": 3 * d,
        "separable": 4 * d,
    }[model.encoder_layer]
    feed_forward = 2 * ff + 3 * d
    return model.n_layers * (encoder + 2 * attention + 2 * feed_forward)


def _additive_bytes(model: ModelConfig, batch: MicroBatch) -> float:
    """Bytes of explicit attention with additive scores: the weights of three attentions per layer,
    and a slice of the sums."""
    weights = 4 * batch.tokens * model.n_heads * batch.length
    sums = weights * model.d_k
    return 3 * model.n_layers * weights + min(sums, LARGEST_SLICE)
