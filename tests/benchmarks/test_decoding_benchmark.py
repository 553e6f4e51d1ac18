"""The benchmark of decoding at toy size: all programs do the same work, or the run is refused."""

import pytest
import torch
from composed_rows import composed_row

from benchmarks.decoders import Decoder, ctranslate2_decoder, marian, ours
from benchmarks.decoding import Workload, measure, one_length
from benchmarks.timing import Rounds
from sweeps.problems import RefusedError

ONCE = Rounds(1, 1)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return one_length(
        composed_row(["scale=tiny"]).rows[0].settings.config, vocab_size=520, sentences=5, length=6
    )


def test_every_program_finds_the_same_outputs_and_all_of_one_length(workload: Workload) -> None:
    decoders = [
        ours(workload.model, arithmetic, workload.decode) for arithmetic in ("fp32", "bf16")
    ]
    peers = (
        ctranslate2_decoder(workload.model, workload.decode),
        marian(workload.model, "fp32", workload.decode),
    )
    lines = measure(workload, [*decoders, *peers], ONCE)
    assert [line["same"] for line in lines if line["arithmetic"] == "fp32"] == [5, 5, 5]
    outputs = decoders[0].translate_all(workload.batches)
    assert {len(output) for output in outputs} == {6}
    assert len({tuple(output) for output in outputs}) == 5


def test_a_program_with_different_outputs_is_refused_before_any_timing(workload: Workload) -> None:
    honest = ours(workload.model, "fp32", workload.decode)
    rounds = []

    def lazy(source: torch.Tensor) -> list[list[int]]:
        rounds.append(len(source))
        return [output[:-1] for output in honest.translate(source)]

    with pytest.raises(
        RefusedError,
        match="one length, lazy, fp32: 0 of 5 outputs are the same; at least 99% must be the same",
    ):
        measure(workload, [honest, Decoder("lazy", "fp32", lazy)], ONCE)
    assert rounds == [5]
