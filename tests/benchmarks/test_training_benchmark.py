"""The parts of the benchmark at toy size: the peer is the same model, rounds and ratios are correct."""

import json
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.arithmetic import Arithmetic, best_rates, calibrate
from benchmarks.contest import OURS, TORCH, contestants
from benchmarks.goals import ratios
from benchmarks.padding import padding, share
from benchmarks.peers import TorchTransformer, random_draws, trained_parameters
from benchmarks.record import Result
from benchmarks.report import document, sheets
from benchmarks.timing import Rounds, in_rounds
from benchmarks.training import compare, write
from benchmarks.waiting import checkpoint_stall, start_up
from benchmarks.workloads import Size, Workload, drawn_pairs, read_pairs, workload
from transformer.data.batches import collate
from transformer.data.pieces import PAD
from transformer.data.prepare import ParallelSet, Sentences
from transformer.model.encoder_decoder import Transformer
from transformer.schema import RefusedError

TOY = Size("toy", ("scale=tiny", "model.max_positions=64"), 8000, tokens=600, batches=2, rounds=Rounds(2, 2))


@pytest.fixture(scope="module")
def pairs() -> ParallelSet:
    return drawn_pairs(2000)


@pytest.fixture(scope="module")
def work(pairs: ParallelSet) -> Workload:
    return workload(TOY, pairs)


@pytest.fixture(scope="module")
def result(pairs: ParallelSet, work: Workload) -> Result:
    """The smallest possible run; figures that need another process or a second core are made up."""
    head = {"commit": "0" * 40, "dirty": False, "cpu": {"model": "toy", "count": 2}, "versions": {"torch": "2"}}
    head |= {"date": "2026-01-01T00:00:00+00:00", "command": "toy", "text": "drawn", "seconds": 1.0}
    found: Result = {**head, "calibration": calibrate({"toy": (8, 16, 4)}), "models": [], "training": []}
    compare(found, TOY, pairs, (TORCH,), TOY.rounds)
    found["padding"] = padding(pairs, (600,))
    found["start_up"] = [5.0]
    found["checkpoint"] = checkpoint_stall(work, times=1)
    found["threads"] = [{"arithmetic": Arithmetic.BF16, "one": [2.0], "two": [1.0], "ratios": [2.0]}]
    return found


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


def test_each_arithmetic_sets_the_switch_and_restores_it() -> None:
    matmul, seen = torch.backends.mkldnn.matmul, dict[Arithmetic, Any]()  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    for outer in Arithmetic:
        with outer.applied(), Arithmetic.ONEDNN.applied(), outer.applied():
            seen[outer] = matmul.fp32_precision
    assert seen == {Arithmetic.FP32: "none", Arithmetic.ONEDNN: "bf16", Arithmetic.BF16: "none"}
    assert matmul.fp32_precision == before


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


def test_more_rounds_run_while_time_is_left() -> None:
    assert len(in_rounds([lambda: None], Rounds(1, 4, seconds=60))[0]) == 4


def test_a_ratio_is_taken_round_by_round() -> None:
    ours = {"size": "base", "program": OURS, "arithmetic": Arithmetic.BF16, "tuned": False}
    peer = {**ours, "program": "HF Marian"}
    (line,) = ratios([{**ours, "tokens_per_s": [100, 300, 80]}, {**peer, "tokens_per_s": [50, 100, 80]}])
    assert line["ratios"] == [2, 3, 1]
    assert (line["median"], line["goal"]) == (2, 1.45)


def test_the_share_of_padding_counts_the_cells_of_both_sides() -> None:
    source, target = sentences([2, 4]), sentences([3, 1])
    assert share([collate(ParallelSet(source, target), np.arange(2))]) == pytest.approx(1 - 10 / 14)


def test_all_programs_train_on_the_same_full_batches(work: Workload) -> None:
    assert len(work.batches) == TOY.batches
    widths = [batch.target.shape[1] for batch in work.batches]
    assert widths[0] < widths[1]
    assert all(0.7 * TOY.tokens < batch.total_targets <= TOY.tokens for batch in work.batches)
    assert work.targets == sum(int((batch.target != PAD).sum()) for batch in work.batches)


def test_a_run_measures_every_contestant_in_every_round(result: Result) -> None:
    entered = [(line["program"], line["arithmetic"], line["tuned"]) for line in result["training"]]
    assert len(set(entered)) == len(entered) == 3 + 4
    assert all(len(line["tokens_per_s"]) == TOY.rounds.least for line in result["training"])
    assert all(speed > 0 for line in result["training"] for speed in line["tokens_per_s"])
    assert {line["program"] for line in result["models"]} == {OURS, TORCH.name}


def test_every_table_is_made(result: Result) -> None:
    made = list(sheets(result))
    assert [sheet.title for sheet in made] == [
        *("Matmuls", "Models", "Peers at their defaults", "Peers with our switches", "Ours", "Ours against the peers"),
        *("Padding", "Two threads against one", "Start-up", "Checkpoints"),
    ]
    for sheet in made:
        assert sheet.rows, sheet.title
        assert all(len(row) == len(sheet.columns) for row in sheet.rows), sheet.title


def test_a_run_is_written_as_markdown_and_json(result: Result, tmp_path: Path) -> None:
    path = write(result, [], tmp_path)
    assert path.read_text() == document(result)
    assert "| toy | ablate | bf16 |" in document(result)
    assert json.loads(path.with_suffix(".json").read_text()) == result


def test_start_up_is_timed_until_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b c d\ne f g h\nb d f h\n")
    files = [f"data.{split}=['{tmp_path}/text','{tmp_path}/text']" for split in ("train", "dev", "test")]
    (seconds,) = start_up("data=files", *files, "data.vocab_size=272", times=1)
    assert seconds > 0


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="must be the folder of Multi30k's files"):
        read_pairs(tmp_path / "nowhere")


def sentences(lengths: list[int]) -> Sentences:
    offsets = np.cumsum([0, *lengths])
    return Sentences(np.full(offsets[-1], 7, dtype=np.int32), offsets)


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
