"""FLOPs by arithmetic equal what torch counts, on each of the 20 rows as they are composed."""

from functools import cache

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from sweeps.config.files import SHIPPED
from sweeps.config.settings import Settings
from sweeps.planning.compose import compose_sweep
from transformer.cost import Lengths, forward_flops, training_flops
from transformer.model.encoder_decoder import Transformer
from transformer.training.loss import summed_loss
from transformer.training.precision import autocast

ROWS = sorted(path.stem for path in (SHIPPED / "row").glob("*.yaml"))
SENTENCES, SOURCE, TARGET = 2, 7, 4  # one length per side: no padding, which the counter would count too
LENGTHS = Lengths.of([(SOURCE, TARGET)] * SENTENCES)


@cache
def half_scale() -> dict[str, Settings]:
    """The meta device has room for the full size, but there the model cannot tell padding from pieces."""
    rows = compose_sweep(["scale=half", f"sweep.rows=[{','.join(ROWS)}]"]).rows
    return {row.name: row.settings for row in rows}


def pieces(vocab_size: int, length: int) -> Tensor:
    return torch.randint(4, vocab_size, (SENTENCES, length))


@pytest.mark.parametrize("row", ROWS)
def test_flops_of_a_row_equal_what_torch_counts(row: str) -> None:
    settings = half_scale()[row]
    vocab_size, train = settings.trial.data.vocab_size, settings.trial.train
    model = Transformer(settings.trial.model, vocab_size).train()
    source, target = pieces(vocab_size, SOURCE), pieces(vocab_size, TARGET)
    with autocast(train.precision, source.device):
        with FlopCounterMode(display=False) as forward:  # under no_grad it cannot follow a learned table
            model.logits(model(source, target))
        with FlopCounterMode(display=False) as training:  # the fused loss makes its gradients on the way forward
            summed_loss(model, model(source, target), target, train.label_smoothing).backward()
    assert forward.get_total_flops() == forward_flops(settings.trial.model, vocab_size, LENGTHS)
    assert training.get_total_flops() == training_flops(settings.trial.model, vocab_size, LENGTHS)
