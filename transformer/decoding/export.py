"""A trained model in one folder, and that folder opened: weights, configuration, vocabulary; or in CTranslate2's form.

MLflow calls ``_load_pyfunc`` to serve an exported folder.
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

from transformer.config import TrialConfig, read_trial
from transformer.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from transformer.decoding.translator import Translator
from transformer.faults import Fault, FaultyError
from transformer.model.attention import CrossAttention, Projection, SelfAttention
from transformer.model.encoder_decoder import Residual, Transformer

WEIGHTS_FILE, CONFIG_FILE, VOCABULARY_FILE = "model.safetensors", "config.json", "vocabulary.model"
FORMAT = 1
"""Increased whenever the layout of an exported folder changes."""


def export_weights(model: Transformer, vocabulary: Path, trial: TrialConfig, folder: Path) -> None:
    """Write weights (safetensors), configuration (JSON) and SentencePiece model for ``open_exported``.

    ``folder`` exists. Paths and mirrors of the text are left out: a mirror may contain a password, a path a name.
    """
    data = replace(trial.data, mirror=None, train=None, dev=None, test=None)
    weights = {name: weight.detach().float().cpu().contiguous() for name, weight in model.state_dict().items()}
    text = json.dumps({"format": FORMAT, "trial": asdict(replace(trial, data=data))}, indent=2, ensure_ascii=False)
    safetensors.torch.save_file(weights, folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(text + "\n", "utf-8")
    shutil.copyfile(vocabulary, folder / VOCABULARY_FILE)


def open_exported(folder: str | Path) -> Translator:
    """The translator in a folder that ``allelse export --to safetensors`` wrote, on the CPU.

    Reads only data: nothing in the folder can run code. Raises FaultyError if a file is missing, damaged or misfit.
    """
    with _reading(Path(folder, CONFIG_FILE)) as path:
        tree = json.loads(path.read_text("utf-8"))
        if tree["format"] != FORMAT:
            raise ValueError(f"its format is {tree['format']}, not {FORMAT}")
        plain = tree["trial"]
    trial = read_trial(plain)
    with _reading(Path(folder, VOCABULARY_FILE)) as path:
        vocabulary = Vocabulary(path)
    model = Transformer(trial.model, len(vocabulary))
    with _reading(Path(folder, WEIGHTS_FILE)) as path:
        model.load_state_dict(safetensors.torch.load_file(path))
    return Translator(model.eval(), vocabulary, trial.decode, trial.train.precision)


@contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """What goes wrong with this file is a FaultyError that names it."""
    try:
        yield path
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, safetensors.SafetensorError) as error:
        found = f"cannot be read: {' '.join(str(error).split()[:30])}"
        raise FaultyError(Fault(str(path), found, "must be unchanged since the export")) from error


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, renamed to ``folder``, which is new, once it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        workshop.chmod(0o755)  # mkdtemp's 0700 would hide the model from colleagues
        yield workshop
        os.rename(workshop, folder)  # noqa: PTH104 - atomic, and never replaces a folder with content
    except BaseException:
        shutil.rmtree(workshop, ignore_errors=True)
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


Attention = SelfAttention | CrossAttention
NEVER = -10_000.0
"""A logit that means probability zero, in float16 too: padding and beginning-of-sentence are never generated."""


def export_ctranslate2(model: Transformer, vocabulary: Path, folder: Path) -> None:
    """Fill the existing ``folder`` so that ``ctranslate2.Translator`` opens it, in float32 and with the vocabulary.

    The Translator reads and returns pieces as text, as ``sentencepiece`` encodes a line to ``str``. It adds
    end-of-sentence itself. Raises FaultyError if the package ctranslate2 is missing.
    """
    specification(model, Vocabulary(vocabulary).texts()).save(str(folder))
    shutil.copyfile(vocabulary, folder / VOCABULARY_FILE)


def specification(model: Transformer, texts: list[str]) -> Any:
    """The model and the texts of its pieces as CTranslate2's ``TransformerSpec``, ready to be saved."""
    spec = _layers(model)
    spec.register_source_vocabulary(texts)
    spec.register_target_vocabulary(texts)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = texts[UNK], texts[BOS], texts[EOS]
    spec.config.decoder_start_token, spec.config.add_source_eos = texts[BOS], True
    spec.validate()
    spec.optimize()
    return spec


@torch.no_grad()
def _layers(model: Transformer) -> Any:
    """CTranslate2 has one width for keys and values, so the narrower of the two is padded with zeros."""
    specs, config = _specs(), model.config
    sizes = {"num_layers": config.n_layers, "num_heads": config.n_heads, "head_dim": max(config.d_k, config.d_v)}
    encoder = specs.TransformerEncoderSpec(**sizes, pre_norm=False)
    decoder = specs.TransformerDecoderSpec(**sizes, pre_norm=False)
    _set_input(encoder.embeddings[0], encoder.position_encodings, model.embedding, model.source_positions.table)
    _set_input(decoder.embeddings, decoder.position_encodings, model.embedding, model.target_positions.table)
    never = torch.zeros(model.vocab_size)
    never[[PAD, BOS]] = NEVER
    _set_linear(decoder.projection, model.embedding, never)
    for made, layer in zip([*encoder.layer, *decoder.layer], [*model.encoder, *model.decoder], strict=True):
        _set_layer(made, layer)
    return specs.TransformerSpec(encoder, decoder)


def _specs() -> Any:
    try:
        from ctranslate2.specs import transformer_spec
    except ImportError as error:
        fix = "must be: pip install 'allelse[export]'"
        raise FaultyError(Fault("ctranslate2", "is not installed", fix)) from error
    return transformer_spec


def _set_input(embeddings: Any, positions: Any, embedding: Tensor, table: Tensor) -> None:
    """CTranslate2 multiplies by √d_model, as the model does."""
    embeddings.weight = embedding.numpy(force=True)
    positions.encodings = table.numpy(force=True)


def _set_layer(made: Any, layer: Any) -> None:
    query, *key_value = layer.attention.projections()
    _set_attention(made.self_attention, layer.attention, [[query, *key_value]], layer.attention_residual)
    if hasattr(layer, "cross"):
        query, *key_value = layer.cross.projections()
        _set_attention(made.attention, layer.cross, [[query], key_value], layer.cross_residual)
    _set_linear(made.ffn.linear_0, layer.feed_forward.inner.weight, layer.feed_forward.inner.bias)
    _set_linear(made.ffn.linear_1, layer.feed_forward.outer.weight, layer.feed_forward.outer.bias)
    _set_norm(made.ffn, layer.feed_forward_residual)


def _set_attention(made: Any, attention: Attention, fused: list[list[Projection]], residual: Residual) -> None:
    """``fused``: the projections to heads that CTranslate2 multiplies as one matrix each."""
    made.queries_scale = np.float32(attention.d_k**-0.5)  # of the width before padding
    for linear, projections in zip(made.linear, fused, strict=False):
        _set_linear(linear, *_filled(projections, attention))
    weight_DR = _fill_heads(attention.output.weight.T, attention).T
    _set_linear(made.linear[-1], weight_DR, attention.output.bias)
    _set_norm(made, residual)


def _filled(projections: list[Projection], attention: Attention) -> tuple[Tensor, Tensor | None]:
    """Their weights and biases, each head padded. If some have a bias, the others get a zero bias."""
    weight = torch.cat([_fill_heads(each.weight, attention) for each in projections])
    if all(each.bias is None for each in projections):
        return weight, None
    biases = [weight.new_zeros(len(weight)) if bias is None else bias for weight, bias in projections]
    return weight, torch.cat([_fill_heads(bias, attention) for bias in biases])


def _fill_heads(x: Tensor, attention: Attention) -> Tensor:
    """[H·C, …] to [H·max(d_k, d_v), …]: zeros after the C rows of each head."""
    x_HC = x.unflatten(0, (attention.n_heads, -1))
    filled = x_HC.new_zeros(attention.n_heads, max(attention.d_k, attention.d_v), *x_HC.shape[2:])
    filled[:, : x_HC.shape[1]] = x_HC
    filled_RD: Tensor = filled.flatten(0, 1)
    return filled_RD


def _set_linear(made: Any, weight: Tensor, bias: Tensor | None) -> None:
    made.weight = weight.numpy(force=True)
    if bias is not None:
        made.bias = bias.numpy(force=True)


def _set_norm(made: Any, residual: Residual) -> None:
    made.layer_norm.gamma = residual.norm.weight.numpy(force=True)
    made.layer_norm.beta = residual.norm.bias.numpy(force=True)
