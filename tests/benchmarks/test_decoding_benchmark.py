"""The benchmark of decoding at toy size: all programs do the same work, or the run is refused."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from benchmarks.decoders import Decoder, ctranslate2_decoder, marian, ours, without_cache
from benchmarks.decoding import Workload, measure, natural_ends, one_length
from benchmarks.timing import Rounds
from sweeps.cli import app
from sweeps.planning.compose import compose_row
from sweeps.schema import RefusedError
from sweeps.task import Keep
from sweeps.worker.checkpoints import Checkpoints
from transformer.data.vocabulary import PAD

ONCE = Rounds(1, 1)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return one_length(compose_row(["scale=tiny"]).rows[0].settings.trial, vocab_size=520, sentences=5, length=6)


@pytest.fixture(scope="module")
def lines(workload: Workload) -> list[dict[str, Any]]:
    decoders = [ours(workload.model, arithmetic, workload.decode) for arithmetic in ("fp32", "bf16", "int8")]
    decoders.append(ctranslate2_decoder(workload.model, "float32", workload.decode))
    return measure(workload, decoders, ONCE)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trial trained by `allelse train`."""
    folder, drawn = tmp_path_factory.mktemp("trained"), random.Random(1)
    for name, size in (("train", 200), ("dev", 3), ("test", 5)):
        sentences = [" ".join(drawn.choices("abcdef", k=drawn.randint(1, 8))) for _ in range(size)]
        (folder / name).write_text("".join(f"{sentence}\n" for sentence in sentences))
    files = [f"data.{name}=['{folder / name}','{folder / name}']" for name in ("train", "dev", "test")]
    words = ["sweep.name=toy", "data=files", *files, "data.vocab_size=270", "train.steps=2", "decode.max_extra=5"]
    words += [f"model.{word}" for word in ("n_layers=1", "d_model=32", "d_ff=64", "n_heads=4", "d_k=8", "d_v=8")]
    places = [f"paths.runs={folder}/runs", f"paths.data={folder}/data"]
    done = CliRunner().invoke(app, ["train", *words, *places])
    assert done.exit_code == 0, done.output
    return folder / "runs" / "toy" / "base-s1"


def test_every_program_finds_the_same_outputs_and_all_of_one_length(
    workload: Workload, lines: list[dict[str, Any]]
) -> None:
    exact = [line for line in lines if line["arithmetic"] == "fp32"]
    assert [(line["program"], line["same"]) for line in exact] == [("allelse", 5), ("CTranslate2", 5)]
    outputs = ours(workload.model, "fp32", workload.decode).translate_all(workload.batches)
    assert {len(output) for output in outputs} == {6}
    assert len({tuple(output) for output in outputs}) == 5


def test_marian_with_our_weights_finds_the_same_outputs(workload: Workload) -> None:
    found = marian(workload.model, "fp32", workload.decode).translate_all(workload.batches)
    assert found == ours(workload.model, "fp32", workload.decode).translate_all(workload.batches)


def test_the_first_sentences_of_a_trial_s_test_set_are_decoded_with_its_weights(trial: Path) -> None:
    workload = natural_ends(trial, sentences=4)
    assert workload.name == "natural ends, test"
    assert workload.sentences == 4
    assert workload.text is not None
    written = workload.text.prepared.vocabulary.encode(workload.text.references)
    read = [[piece for piece in row if piece != PAD] for batch in workload.batches for row in batch.tolist()]
    assert written == read  # this trial copies
    key = json.loads((trial / "result.json").read_text())["key"]
    found = Checkpoints(str(trial / "checkpoints"), key, 1, Keep()).newest()
    assert found is not None
    weights = found[2].state["model"]
    assert all(torch.equal(weights[name], weight) for name, weight in workload.model.state_dict().items())
    decode = replace(workload.decode, max_extra=5)
    expected = ours(workload.model, "fp32", decode).translate_all(workload.batches)
    assert without_cache(workload.model, decode).translate_all(workload.batches) == expected
    assert workload.text.bleu(read) == pytest.approx(100)


def test_a_program_with_different_outputs_is_refused_before_any_timing(workload: Workload) -> None:
    honest, rounds = ours(workload.model, "fp32", workload.decode), []

    def lazy(source: torch.Tensor) -> list[list[int]]:
        rounds.append(len(source))
        return [output[:-1] for output in honest.translate(source)]

    with pytest.raises(
        RefusedError, match="one length, lazy, fp32: 0 of 5 outputs are the same; at least 99% must be the same"
    ):
        measure(workload, [honest, Decoder("lazy", "fp32", lazy)], ONCE)
    assert rounds == [5]
