"""The parts of the benchmark at toy size: the peer is the same model, rounds and ratios are correct."""

from dataclasses import replace
from functools import partial
from itertools import count

import pytest
import torch

from benchmarks.arithmetic import Arithmetic, best_rates, calibrate
from benchmarks.contest import OURS, TORCH, contestants
from benchmarks.goals import ratios
from benchmarks.peers import TorchTransformer, random_draws, trained_parameters
from benchmarks.timing import Rounds, in_rounds
from benchmarks.workloads import Size, Workload, drawn_pairs, workload
from transformer.data.prepared import ParallelSet
from transformer.data.vocabulary import PAD
from transformer.model.encoder_decoder import Transformer

TOY = Size("toy", ("scale=tiny", "model.max_positions=64"), 8000, tokens=600, batches=2, rounds=Rounds(2, 2))


@pytest.fixture(scope="module")
def pairs() -> ParallelSet:
    return drawn_pairs(2000)


@pytest.fixture(scope="module")
def work(pairs: ParallelSet) -> Workload:
    return workload(TOY, pairs)


def test_the_peer_has_our_parameters_plus_attention_biases_and_two_last_norms(work: Workload) -> None:
    model = work.trial.model
    ours, theirs = Transformer(model, TOY.vocab_size), TorchTransformer(model, TOY.vocab_size)
    biases, norms = 3 * model.n_layers * 4 * model.d_model, 2 * 2 * model.d_model
    assert trained_parameters(theirs) - trained_parameters(ours) == biases + norms


def test_the_peer_with_our_weights_has_our_logits(work: Workload) -> None:
    model = replace(work.trial.model, p_drop=0.0)
    ours, theirs = Transformer(model, TOY.vocab_size), TorchTransformer(model, TOY.vocab_size)
    copy_weights(ours, theirs)
    batch = next(batch for batch in work.batches if (batch.source == PAD).any() and (batch.target == PAD).any())
    with torch.no_grad():
        logits = ours.logits(ours(batch.source, batch.shifted))
        real = batch.target != PAD
        torch.testing.assert_close(theirs(batch.source, batch.shifted)[real], logits[real], atol=1e-3, rtol=1e-3)


def test_random_draws_are_the_dropout_sites(work: Workload) -> None:
    batch, model = work.batches[0], work.trial.model
    for config, sites in ((model, 10 * model.n_layers + 2), (replace(model, p_drop=0.0), 0)):
        peer = TorchTransformer(config, TOY.vocab_size)
        assert random_draws(partial(peer, batch.source, batch.shifted)) == sites


def test_every_contestant_trains_its_model(work: Workload) -> None:
    for contestant in contestants(work, [TORCH]):
        before = [parameter.clone() for parameter in contestant.model.parameters()]
        contestant.train(work.batches)
        assert all((a != b).any() for a, b in zip(before, contestant.model.parameters(), strict=True)), contestant


def test_calibration_distinguishes_float32_from_bfloat16() -> None:
    lines = calibrate({"toy": (64, 256, 32)})
    errors = {line["arithmetic"]: line["error"] for line in lines}
    assert errors[Arithmetic.FP32] < 1e-6 < 1e-4 < errors[Arithmetic.BF16] < 1e-2
    assert all(rate > 0 for rate in best_rates(lines).values())


def test_tasks_take_turns_and_the_first_round_is_not_counted() -> None:
    ticks, turns = count(), []
    taken = in_rounds([lambda: turns.append("A"), lambda: turns.append("B")], Rounds(2, 5), lambda: next(ticks))
    assert "".join(turns) == "ABABAB"
    assert taken == [[1, 1], [1, 1]]


def test_a_ratio_is_taken_round_by_round() -> None:
    ours = {"size": "base", "program": OURS, "arithmetic": Arithmetic.BF16, "tuned": False}
    peer = {**ours, "program": "HF Marian"}
    (line,) = ratios([{**ours, "tokens_per_s": [100, 300, 80]}, {**peer, "tokens_per_s": [50, 100, 80]}])
    assert line["ratios"] == [2, 3, 1]
    assert (line["median"], line["goal"]) == (2, 1.45)


def test_all_programs_train_on_the_same_full_batches(work: Workload) -> None:
    assert len(work.batches) == TOY.batches
    widths = [batch.target.shape[1] for batch in work.batches]
    assert widths[0] < widths[1]
    assert all(0.7 * TOY.tokens < batch.total_targets <= TOY.tokens for batch in work.batches)
    assert work.targets == sum(int((batch.target != PAD).sum()) for batch in work.batches)


@torch.no_grad()
def copy_weights(ours: Transformer, theirs: TorchTransformer) -> None:
    """All other weights start the same in both: norms as the identity, attention biases as zero."""
    theirs.embedding.weight.copy_(ours.embedding)
    for side in ("encoder", "decoder"):
        for mine, other in zip(getattr(ours, side), getattr(theirs.transformer, side).layers, strict=True):
            other.self_attn.in_proj_weight.copy_(mine.attention.qkv.weight)
            other.self_attn.out_proj.weight.copy_(mine.attention.output.weight)
            other.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
            other.linear2.load_state_dict(mine.feed_forward.outer.state_dict())
            if side == "decoder":
                cross = torch.cat([mine.cross.query.weight, mine.cross.kv.weight])
                other.multihead_attn.in_proj_weight.copy_(cross)
                other.multihead_attn.out_proj.weight.copy_(mine.cross.output.weight)
