"""Programs that translate the same batches with the same weights by the same beam search."""

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.arithmetic import Arithmetic
from benchmarks.peers import Marian
from transformer.config import DecodeConfig
from transformer.data.vocabulary import BOS, EOS, PAD
from transformer.decoding.export import NEVER, specification
from transformer.decoding.search import beam_search
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.encoder_decoder import Cache, Transformer

OURS = "allelse"
WITHOUT_CACHE = "allelse, no cache"
CTRANSLATE2 = "CTranslate2"
MARIAN = "HF Marian"
Outputs = list[list[int]]


@dataclass(frozen=True)
class Decoder:
    """A program in one arithmetic: the best output of each sentence [B, S] of a batch, in pieces
    without the end."""

    program: str
    arithmetic: str
    translate: Callable[[Tensor], Outputs]

    def translate_all(self, batches: Sequence[Tensor]) -> Outputs:
        """One round."""
        return [output for batch in batches for output in self.translate(batch)]


def ours(model: Transformer, arithmetic: str, decode: DecodeConfig) -> Decoder:
    """Our search, in "fp32" or "bf16"; in float32 with matmuls in oneDNN, like trials of wide
    models."""
    converted = copy.deepcopy(model).bfloat16() if arithmetic == "bf16" else model
    switch = Arithmetic.FP32 if arithmetic == "bf16" else Arithmetic.ONEDNN

    def translate(source_BS: Tensor) -> Outputs:
        with switch.applied():
            return [best[0].pieces for best in beam_search(converted, source_BS, decode, n_best=1)]

    return Decoder(OURS, arithmetic, translate)


def without_cache(model: Transformer, decode: DecodeConfig) -> Decoder:
    """Ours in float32 without a cache: each step reads the outputs again from their first piece."""
    forgetful = _Forgetful(model.config, model.vocab_size).eval()
    forgetful.load_state_dict(model.state_dict())
    return Decoder(WITHOUT_CACHE, "fp32", ours(forgetful, "fp32", decode).translate)


def ctranslate2_decoder(model: Transformer, decode: DecodeConfig) -> Decoder:
    """CTranslate2 in float32 with our weights; its pieces are their numbers as text,
    end-of-sentence included."""
    import ctranslate2

    spec = specification(model, list(map(str, range(model.vocab_size))))
    spec.config.add_source_eos = False
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder, compute_type="float32", intra_threads=1, inter_threads=1
        )

    def translate(source_BS: Tensor) -> Outputs:
        sentences = [list(map(str, without(PAD, pieces))) for pieces in source_BS.tolist()]
        longest = source_BS.shape[1] + decode.max_extra
        options = {"beam_size": decode.beam, "length_penalty": 0, "min_decoding_length": 0}
        results = translator.translate_batch(sentences, max_decoding_length=longest, **options)
        return [list(map(int, result.hypotheses[0])) for result in results]

    return Decoder(CTRANSLATE2, "fp32", translate)


def marian(model: Transformer, arithmetic: str, decode: DecodeConfig) -> Decoder:
    """``generate`` of Hugging Face's MarianMT with our weights."""
    network = _marian_of(model)
    if arithmetic == "bf16":
        network = network.bfloat16()
    options = {
        "num_beams": decode.beam,
        "length_penalty": 0.0,
        "do_sample": False,
        "forced_eos_token_id": None,
    }

    @torch.no_grad()
    def translate(source_BS: Tensor) -> Outputs:
        longest = 1 + source_BS.shape[1] + decode.max_extra
        outputs = network.generate(
            source_BS, attention_mask=(source_BS != PAD).long(), max_length=longest, **options
        )
        return [_until_the_end(pieces[1:]) for pieces in outputs.tolist()]

    return Decoder(MARIAN, arithmetic, translate)


def without(piece: int, pieces: list[int]) -> list[int]:
    """The pieces without ``piece``."""
    return [item for item in pieces if item != piece]


def _until_the_end(pieces: list[int]) -> list[int]:
    return pieces[: pieces.index(EOS)] if EOS in pieces else without(PAD, pieces)


class _Prefixes(Cache):
    """Source pieces [B, S] and the pieces of their outputs so far [B·N, L], in place of keys and
    values."""

    def __init__(self, source_BS: Tensor) -> None:
        super().__init__(None, [], [])
        self.source_BS = source_BS
        self.pieces_RL = torch.empty(0)

    def select(self, sentences: Tensor, outputs: Tensor) -> None:
        self.source_BS = self.source_BS[sentences]
        self.reorder(outputs)

    def reorder(self, outputs: Tensor) -> None:
        self.pieces_RL = self.pieces_RL[outputs]


class _Forgetful(Transformer):
    def start(self, source_BS: Tensor) -> Cache:
        return _Prefixes(source_BS)

    def step(self, piece_BN: Tensor, cache: Cache) -> Tensor:
        assert isinstance(cache, _Prefixes)
        piece_R1 = piece_BN.flatten()[:, None]
        cache.pieces_RL = (
            torch.cat([cache.pieces_RL, piece_R1], dim=1) if cache.length else piece_R1
        )
        cache.length += 1
        source_RS = cache.source_BS.repeat_interleave(piece_BN.shape[1], dim=0)
        last_RD = self(source_RS, cache.pieces_RL)[:, -1]
        return self.logits(last_RD.view(*piece_BN.shape, -1))


@torch.no_grad()
def _marian_of(model: Transformer) -> Any:
    """MarianMT that computes our function: zero attention biases, and no padding or start piece in
    its outputs."""
    network: Any = Marian(model.config, model.vocab_size).marian.eval()
    network.model.shared.weight.copy_(model.embedding)
    network.final_logits_bias[:, [PAD, BOS]] = NEVER
    _copy_side(network.model.encoder, model.encoder, model.source_positions.table)
    _copy_side(network.model.decoder, model.decoder, model.target_positions.table)
    return network


def _copy_side(theirs: Any, layers: Any, table: Tensor) -> None:
    theirs.embed_positions.weight.copy_(table)
    for their_layer, layer in zip(theirs.layers, layers, strict=True):
        _copy_layer(their_layer, layer)


def _copy_layer(theirs: Any, layer: Any) -> None:
    _copy_attention(theirs.self_attn, layer.attention)
    _copy(theirs.self_attn_layer_norm, layer.attention_residual.norm)
    if hasattr(layer, "cross"):
        _copy_attention(theirs.encoder_attn, layer.cross)
        _copy(theirs.encoder_attn_layer_norm, layer.cross_residual.norm)
    _copy(theirs.fc1, layer.feed_forward.inner)
    _copy(theirs.fc2, layer.feed_forward.outer)
    _copy(theirs.final_layer_norm, layer.feed_forward_residual.norm)


def _copy_attention(theirs: Any, ours: SelfAttention | CrossAttention) -> None:
    weights = [*(weight for weight, _ in ours.projections()), ours.output.weight]
    projections = theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.out_proj
    for projection, weight in zip(projections, weights, strict=True):
        projection.weight.copy_(weight)
        projection.bias.zero_()


def _copy(theirs: Any, ours: Any) -> None:
    theirs.weight.copy_(ours.weight)
    theirs.bias.copy_(ours.bias)
