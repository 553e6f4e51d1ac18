"""Sinusoids against the formula, and learned tables."""

import math

import pytest
import torch
from small_trials import small_model

from transformer.model.encoder_decoder import sinusoids


@pytest.mark.parametrize("d_model", [2, 6, 512])
def test_sinusoids_are_interleaved_sines_and_cosines_of_the_papers_formula(d_model: int) -> None:
    table = sinusoids(50, d_model)
    assert table.shape == (50, d_model)
    assert table.dtype == torch.float32
    for position in (0, 1, 7, 49):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoids_are_not_parameters_and_not_in_checkpoints() -> None:
    model = small_model()
    assert not [name for name in model.state_dict() if "positions" in name]
    assert torch.equal(model.source_positions(0, 40), sinusoids(40, 16))


def test_positions_start_at_the_given_start() -> None:
    positions = small_model().source_positions
    assert torch.equal(positions(3, 5), positions(0, 8)[3:])


def test_learned_positions_are_two_tables_with_gradients_for_both() -> None:
    model = small_model(positions="learned").train()
    tables = [model.source_positions.table, model.target_positions.table]
    assert tables[0] is not tables[1]
    assert not torch.equal(*tables)
    model(torch.randint(4, 30, (2, 5)), torch.randint(4, 30, (2, 7))).square().sum().backward()
    for table, used in zip(tables, (5, 7), strict=True):
        assert table.shape == (40, 16)
        assert table.grad is not None
        assert (table.grad[:used].abs().sum(1) > 0).all()
        assert (table.grad[used:] == 0).all()


def test_learned_positions_change_the_output() -> None:
    model, source = small_model(positions="learned"), torch.randint(4, 30, (1, 5))
    before = model(source, source)
    with torch.no_grad():
        model.target_positions.table[2] += 1
    after = model(source, source)
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.allclose(before[:, 2:], after[:, 2:])
