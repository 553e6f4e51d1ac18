"""Export of a trained model to a folder: weights, configuration, vocabulary; or for CTranslate2.

``open_exported`` reads the folder. MLflow calls ``_load_pyfunc`` to serve it.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from transformer.config import ModelConfig, TrialConfig, ctranslate2_faults, read_trial
from transformer.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from transformer.decoding.translator import Translator
from transformer.faults import Fault, FaultyError
from transformer.model.attention import Projection
from transformer.model.encoder_decoder import Positions, Residual, Transformer, sinusoids
from transformer.model.observation import Attention

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
VOCABULARY_FILE = "vocabulary.model"
FORMAT = 1
"""Increased whenever the layout of an exported folder changes."""
READING_ERRORS = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    RuntimeError,
    safetensors.SafetensorError,
)


def export_weights(model: Transformer, vocabulary: Path, trial: TrialConfig, folder: Path) -> None:
    """Write weights, configuration (JSON) and SentencePiece model for ``open_exported``.

    ``folder`` exists. Paths and mirrors of the text are left out: a mirror may contain a password,
    and a path a name.
    """
    data = replace(trial.data, mirror=None, train=None, dev=None, test=None)
    config = {"format": FORMAT, "trial": asdict(replace(trial, data=data))}
    text = json.dumps(config, indent=2, ensure_ascii=False)
    weights = dict[str, Tensor]()
    for name, weight in model.state_dict().items():
        weights[name] = weight.detach().float().cpu().contiguous()
    safetensors.torch.save_file(weights, folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(text + "\n", "utf-8")
    shutil.copyfile(vocabulary, folder / VOCABULARY_FILE)


def open_exported(folder: str | Path) -> Translator:
    """The translator in a folder that ``allelse export --to safetensors`` wrote, on the CPU.

    It reads only data: nothing in the folder can run code. Raises FaultyError if a file is missing
    or damaged, or does not fit the rest.
    """
    with _reading(Path(folder, CONFIG_FILE)) as path:
        config = json.loads(path.read_text("utf-8"))
        if config["format"] != FORMAT:
            raise ValueError(f"its format is {config['format']}, not {FORMAT}")
        settings = config["trial"]
    trial = read_trial(settings)
    with _reading(Path(folder, VOCABULARY_FILE)) as path:
        vocabulary = Vocabulary(path)
    model = Transformer(trial.model, len(vocabulary))
    with _reading(Path(folder, WEIGHTS_FILE)) as path:
        model.load_state_dict(safetensors.torch.load_file(path))
    return Translator(model.eval(), vocabulary, trial.decode, trial.train.precision)


@contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """A context that turns any error of reading this file into a FaultyError that names it."""
    try:
        yield path
    except READING_ERRORS as error:
        reason = " ".join(str(error).split()[:30])
        problem = f"cannot be read: {reason}"
        allowed = "must be unchanged since the export"
        raise FaultyError(Fault(str(path), problem, allowed)) from error


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to write into; at the end it becomes ``folder``, which must be new.

    An error removes it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        temporary.chmod(0o755)  # mkdtemp's 0700 would hide the model from colleagues
        yield temporary
        # This is atomic, and it never replaces a folder with content.
        os.rename(temporary, folder)  # noqa: PTH104
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


class Served:
    """A model of MLflow's flavor ``python_function``."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> list[str]:
        """The translation of each line in the first column of a data frame."""
        return self.translator.translate([str(line) for line in model_input.iloc[:, 0]])


def _load_pyfunc(path: str) -> Served:
    """MLflow's entry point: ``path`` is the exported folder within the MLflow model."""
    return Served(open_exported(path))


SINUSOID_ROWS = 4096
"""Positions of an exported model with sinusoids, at least."""
NEVER = -10_000.0
"""The logit of padding and beginning-of-sentence: probability zero, also in float16."""


def export_ctranslate2(model: Transformer, vocabulary: Path, folder: Path) -> None:
    """Fill the existing ``folder`` so that ``ctranslate2.Translator`` opens it, in float32.

    The Translator reads and returns pieces as text, as ``sentencepiece`` encodes a line to ``str``.
    It adds end-of-sentence itself. The folder also gets the vocabulary. Raises FaultyError for a
    model that it cannot compute, and if the package ctranslate2 is missing.
    """
    faults = list(ctranslate2_faults(model.config))
    if faults:
        raise FaultyError(*faults)
    specification(model, Vocabulary(vocabulary).texts()).save(str(folder))
    shutil.copyfile(vocabulary, folder / VOCABULARY_FILE)


def specification(model: Transformer, texts: list[str]) -> Any:
    """The model and the texts of its pieces as CTranslate2's ``TransformerSpec``, ready to save."""
    spec = _layers(model)
    spec.register_source_vocabulary(texts)
    spec.register_target_vocabulary(texts)
    spec.config.unk_token = texts[UNK]
    spec.config.bos_token = texts[BOS]
    spec.config.eos_token = texts[EOS]
    spec.config.decoder_start_token = texts[BOS]
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize()
    return spec


@torch.no_grad()
def _layers(model: Transformer) -> Any:
    """The weights as a ``TransformerSpec`` without a vocabulary.

    CTranslate2 has one width for keys and values, so the narrower ones are padded with zeros.
    """
    specs = _specs()
    config = model.config
    sizes = {
        "num_layers": config.n_layers,
        "num_heads": config.n_heads,
        "head_dim": max(config.d_k, config.d_v),
    }
    encoder = specs.TransformerEncoderSpec(**sizes, pre_norm=False)
    decoder = specs.TransformerDecoderSpec(**sizes, pre_norm=False)
    # CTranslate2 multiplies embeddings by √d_model, as the model does.
    encoder.embeddings[0].weight = model.embedding.numpy(force=True)
    decoder.embeddings.weight = model.embedding.numpy(force=True)
    encoder.position_encodings.encodings = _position_rows(model.source_positions, config)
    decoder.position_encodings.encodings = _position_rows(model.target_positions, config)
    bias_P = torch.zeros(model.vocab_size)
    bias_P[[PAD, BOS]] = NEVER
    _set_linear(decoder.projection, model.embedding, bias_P)
    layer_specs = [*encoder.layer, *decoder.layer]
    layers = [*model.encoder, *model.decoder]
    for spec, layer in zip(layer_specs, layers, strict=True):
        _set_layer(spec, layer)
    return specs.TransformerSpec(encoder, decoder)


def _position_rows(positions: Positions, config: ModelConfig) -> np.ndarray[Any, Any]:
    """The table of positions [rows, d_model]; CTranslate2 refuses a sentence beyond its last row.

    So sinusoids get ``SINUSOID_ROWS``, while learned positions end where they do in the model.
    """
    table = positions.table
    if config.positions == "sinusoids":
        rows = max(SINUSOID_ROWS, config.max_positions)
        table = sinusoids(rows, config.d_model)
    encodings: np.ndarray[Any, Any] = table.numpy(force=True)
    return encodings


def _specs() -> Any:
    """CTranslate2's module of specifications. Raises FaultyError if it is not installed."""
    try:
        from ctranslate2.specs import transformer_spec
    except ImportError as error:
        fix = "must be: pip install 'allelse[export]'"
        raise FaultyError(Fault("ctranslate2", "is not installed", fix)) from error
    return transformer_spec


def _set_layer(spec: Any, layer: Any) -> None:
    """Write an encoder or decoder layer into its specification."""
    projections = layer.attention.projections()
    _set_attention(spec.self_attention, layer.attention, [projections], layer.attention_residual)
    if hasattr(layer, "cross"):
        query, key, value = layer.cross.projections()
        _set_attention(spec.attention, layer.cross, [[query], [key, value]], layer.cross_residual)
    feed_forward = layer.feed_forward
    _set_linear(spec.ffn.linear_0, feed_forward.inner.weight, feed_forward.inner.bias)
    _set_linear(spec.ffn.linear_1, feed_forward.outer.weight, feed_forward.outer.bias)
    _set_norm(spec.ffn, layer.feed_forward_residual)


def _set_attention(
    spec: Any,
    attention: Attention,
    fused: list[list[Projection]],
    residual: Residual,
) -> None:
    """Write attention and its residual into their specification.

    ``fused``: CTranslate2 multiplies the projections of each list as one matrix.
    """
    spec.queries_scale = np.float32(attention.scale)  # by the width before padding
    for linear, projections in zip(spec.linear, fused, strict=False):
        weight, bias = _fuse(projections, attention)
        _set_linear(linear, weight, bias)
    weight_DR = _fill_heads(attention.output.weight.T, attention).T
    _set_linear(spec.linear[-1], weight_DR, attention.output.bias)
    _set_norm(spec, residual)


def _fuse(projections: list[Projection], attention: Attention) -> tuple[Tensor, Tensor | None]:
    """One weight and one bias for these projections, each head padded.

    If only some projections have a bias, the bias of the rest is zero.
    """
    weights = [_fill_heads(projection.weight, attention) for projection in projections]
    if all(projection.bias is None for projection in projections):
        return torch.cat(weights), None
    biases: list[Tensor] = []
    for weight, bias in projections:
        if bias is None:
            bias = weight.new_zeros(len(weight))
        biases.append(_fill_heads(bias, attention))
    return torch.cat(weights), torch.cat(biases)


def _fill_heads(x: Tensor, attention: Attention) -> Tensor:
    """[H·C, …] to [H·max(d_k, d_v), …]: zeros after the C rows of each head."""
    x_HC = x.unflatten(0, (attention.n_heads, -1))
    width = max(attention.d_k, attention.d_v)
    filled = x_HC.new_zeros(attention.n_heads, width, *x_HC.shape[2:])
    filled[:, : x_HC.shape[1]] = x_HC
    filled_RD: Tensor = filled.flatten(0, 1)
    return filled_RD


def _set_linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = weight.numpy(force=True)
    if bias is not None:
        spec.bias = bias.numpy(force=True)


def _set_norm(spec: Any, residual: Residual) -> None:
    spec.layer_norm.gamma = residual.norm.weight.numpy(force=True)
    spec.layer_norm.beta = residual.norm.bias.numpy(force=True)
