"""Translation as the platform sees it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_trials import DECODE, SMALL, SYNTHETIC, copy_data, prepared_text, small_trial

from sweeps.config.schema import Schema
from transformer.card import CARD
from transformer.cost import parameters
from transformer.task import TRANSLATION

HEAVY = ("torch", "numpy", "sentencepiece", "sacrebleu", "ray", "mlflow", "hydra")


def test_a_plan_imports_nothing_heavy() -> None:
    code = f"import sys, transformer.task; print([name for name in {HEAVY} if name in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "[]\n"


@pytest.mark.parametrize(
    ("average", "train", "kept"),
    [
        (1, {"checkpoint_every": 5, "keep_checkpoints": 9}, 2),
        (1, {"checkpoint_every": 1, "keep_checkpoints": 4}, 4),
        (2, {"checkpoint_every": 5, "keep_checkpoints": 1}, 2),
    ],
)
def test_a_plan_counts_the_bytes_of_the_checkpoints_that_stay(
    average: int, train: dict[str, Any], kept: int
) -> None:
    decode = replace(DECODE, average_checkpoints=average, average_every=3)
    config = small_trial(decode=decode, steps=10, **train)
    assert TRANSLATION.costs(config).checkpoint_bytes == 12 * parameters(SMALL, 1000) * kept


@pytest.mark.parametrize(
    ("steps", "nll", "diverged"),
    [
        (10, 6.90, False),
        (10, 6.92, True),
        (9, 10.8, False),
        (9, 11.0, True),
    ],  # ln V is 6.91, and √d_model 4
)
def test_a_dev_nll_above_ln_v_is_a_divergence_once_the_warm_up_is_over(
    steps: int, nll: float, diverged: bool
) -> None:
    assert (
        TRANSLATION.diverged(small_trial(steps=steps, warmup_steps=10), {"dev/nll": nll})
        is diverged
    )


def test_epochs_are_of_the_pairs_that_training_takes(tmp_path: Path) -> None:
    data = copy_data(tmp_path, (60, 12, 7), "abcdef", longest=20, vocab_size=270)
    prepared = prepared_text(data, tmp_path)
    sides = prepared.pairs("train").longest_sides
    fitting = sides[sides <= 12]
    assert 0 < len(fitting) < len(sides)
    config = small_trial(data, steps=1000, longest=12)
    epochs = 1000 / (fitting.sum() / config.train.tokens_per_batch)
    words = f"1000 steps are about {epochs:,.0f} epochs of {len(fitting)} training pairs"
    assert words in " ".join(TRANSLATION.cautions(config, prepared.folder))


def test_planned_flops_assume_no_pair_that_is_left_out() -> None:
    flops = [
        TRANSLATION.costs(small_trial(SYNTHETIC, longest=longest)).flops or 0.0
        for longest in (3, None)
    ]
    assert 0 < flops[0] < flops[1]


def test_prepared_text_is_checked_and_shown_and_missing_files_are_named_before(
    tmp_path: Path,
) -> None:
    data = copy_data(tmp_path, (60, 12, 7), "abcdef", longest=8, vocab_size=270)
    prepared = prepared_text(data, tmp_path)
    short = small_trial(data, replace(SMALL, max_positions=5, positions="learned"))
    for config, keys in ((small_trial(data), set()), (short, {"model.max_positions"})):
        assert {
            problem.key for problem in TRANSLATION.data_problems(config, prepared.folder)
        } == keys
    assert TRANSLATION.texts is not None
    texts = TRANSLATION.texts(prepared.folder, "test")
    assert texts == {"source": prepared.sources("test"), "reference": prepared.sources("test")}
    assert TRANSLATION.texts(prepared.folder, "wmt14") == {}
    (tmp_path / "dev.txt").unlink()
    assert [problem.key for problem in TRANSLATION.data_problems(small_trial(data), None)] == [
        "data.dev"
    ]


def test_a_place_whose_name_is_too_long_is_left_for_the_refusal(tmp_path: Path) -> None:
    name = "a" * 300
    config = small_trial(replace(SYNTHETIC, name="multi30k", mirror=name))
    assert TRANSLATION.resolved is not None
    assert TRANSLATION.resolved(config, tmp_path).data.mirror == str(tmp_path / name)


def test_the_card_s_symbols_are_those_of_the_schema() -> None:
    """The card may order them differently, as columns of the table."""
    schema = Schema.of(TRANSLATION)
    assert CARD.symbols == {schema.short(key): symbol for key, symbol in schema.symbols.items()}
