"""The sweeps of Table 1 and of section 3.2.1: their rows, their sizes, and what they cost."""

from pathlib import Path

import pytest
import torch
from composed_rows import composed_sweep

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.study_rows.row_words import shown_change
from transformer.cost import parameters
from transformer.model.encoder_decoder import Transformer

ROWS = {
    "table1": {
        "base": "base",
        "encoder_layer_recurrent": "recurrent encoder layers",
        "encoder_layer_convolutional": "convolutional encoder layers",
        "encoder_layer_convolutional-kernel_3": "convolutional encoder layers, k 3",
        "encoder_layer_convolutional-kernel_3-dilation_3": (
            "convolutional encoder layers, k 3, dilation 3"
        ),
        "encoder_layer_separable": "separable convolutions in the encoder",
        "attention_window_9": "self-attention within r = 9 positions, in encoder and decoder",
    },
    "scores": {
        "base": "base",
        "attention_score_dot": "dot-product scores without the scale",
        "attention_score_additive": "additive scores",
        "d_k_16": "d_k 2",
        "d_k_16-attention_score_dot": "d_k 2, dot-product scores without the scale",
        "d_k_16-attention_score_additive": "d_k 2, additive scores",
        "d_k_256": "d_k 32",
        "d_k_256-attention_score_dot": "d_k 32, dot-product scores without the scale",
        "d_k_256-attention_score_additive": "d_k 32, additive scores",
    },
}


@pytest.mark.parametrize("name", ROWS)
def test_the_rows_differ_as_they_say_and_build_at_every_scale(name: str, tmp_path: Path) -> None:
    for scale in ("paper", "half", "quarter", "tiny"):
        composition = composed_sweep([f"sweep={name}", f"scale={scale}"], tmp_path)
        assert [row.name for row in composition.rows] == list(ROWS[name])
        for row in composition.rows:
            trial = row.settings.config
            assert trial.problems() == []
            with torch.device("meta"):
                model = Transformer(trial.model, trial.data.vocab_size)
            size = sum(parameter.numel() for parameter in model.parameters())
            assert size == parameters(trial.model, trial.data.vocab_size)
    for row in composition.rows[1:]:
        assert shown_change(row, composition.base) == ROWS[name][row.name]


def test_the_size_note_names_the_layers_of_another_size(tmp_path: Path) -> None:
    plan = plan_sweep(["sweep=table1", "scale=tiny"], here=tmp_path)
    assert plan.sizes == {
        "encoder_layer_recurrent": "6% more parameters",
        "encoder_layer_convolutional": "9% more parameters and 8% more FLOPs",
        "encoder_layer_separable": "9% fewer parameters and 9% fewer FLOPs",
    }


def test_one_width_of_keys_is_compared_within_itself(tmp_path: Path) -> None:
    """The rows of a width differ from the scaled one of that width in their score alone."""
    composition = composed_sweep(["sweep=scores", "scale=tiny"], tmp_path)
    settings = {row.name: row.settings.config for row in composition.rows}
    references = composition.shared.sweep.references
    for reference in ("base", "d_k_16", "d_k_256"):
        prefix = "" if reference == "base" else f"{reference}-"
        for score in ("dot", "additive"):
            model = settings[f"{prefix}attention_score_{score}"].model
            expected = vars(settings[reference].model) | {"attention_score": score}
            assert vars(model) == expected
            assert references.get(f"{prefix}attention_score_{score}", "base") == reference
