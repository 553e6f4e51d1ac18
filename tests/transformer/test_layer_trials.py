"""Every row of the sweeps of Table 1 and of section 3.2.1 trains, evaluates and resumes."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from composed_rows import composed_sweep
from small_trials import copy_data, prepared_text
from toy_trial import ToyTrial

from transformer.config import TrialConfig
from transformer.cost import parameters
from transformer.data.prepared import Prepared
from transformer.work import work


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("letters")
    return prepared_text(
        copy_data(folder, (120, 6, 4), "abcdef", longest=30, vocab_size=270), folder
    )


def rows(sweep: str) -> dict[str, TrialConfig]:
    """The rows of a shipped sweep at the scale tiny, by name."""
    composition = composed_sweep([f"sweep={sweep}", "scale=tiny"], Path("/"))
    return {row.name: row.settings.config for row in composition.rows}


@pytest.mark.slow
@pytest.mark.parametrize("sweep", ["table1", "scores"])
def test_every_row_trains_and_is_scored_alike_with_and_without_a_stop(
    sweep: str, prepared: Prepared
) -> None:
    losses = dict[str, float]()
    for name, config in rows(sweep).items():
        train = replace(config.train, steps=4, warmup_steps=4, log_every=1, evaluate_every=4)
        decode = replace(config.decode, beam=2, max_extra=2)
        short = replace(config, train=train, decode=decode)
        uninterrupted = ToyTrial(short, prepared.folder)
        work(uninterrupted)
        stopped = ToyTrial(short, prepared.folder, stops_after=2)
        work(stopped)
        resumed = stopped.again()
        work(resumed)
        assert [name for name, *_ in uninterrupted.said("evaluated")] == ["dev", "test"]
        assert resumed.said("evaluated") == uninterrupted.said("evaluated")
        assert resumed.said("spent") == uninterrupted.said("spent")
        (costs,) = uninterrupted.said("spent")
        assert costs.params == parameters(config.model, 270)
        reports = uninterrupted.reports[4]
        assert all(map(math.isfinite, reports.values()))
        has_attention = config.model.encoder_layer == "attention"
        places = ["encoder", "decoder", "cross"] if has_attention else ["decoder", "cross"]
        attention_names = {name for name in reports if name.startswith("attention/")}
        assert attention_names == {
            f"attention/{side}_{statistic}"
            for side in places
            for statistic in ("logit_sd", "entropy")
        }
        uniform = math.log(prepared.pairs("dev").longest_sides.max())
        for attention_side in places:
            assert reports[f"attention/{attention_side}_logit_sd"] > 0
            assert 0 < reports[f"attention/{attention_side}_entropy"] < uniform
        losses[name] = reports["train/loss"]
    assert len(set(losses.values())) == len(losses), "each row trains another model"


def test_bf16_trains_every_kind_of_layer(prepared: Prepared) -> None:
    for name, config in rows("table1").items():
        train = replace(
            config.train,
            steps=2,
            warmup_steps=2,
            precision="bf16",
            log_every=1,
            evaluate_every=2,
        )
        decode = replace(config.decode, beam=1, max_extra=1)
        trial = ToyTrial(replace(config, train=train, decode=decode), prepared.folder)
        work(trial)
        assert math.isfinite(trial.reports[2]["dev/nll"]), name
        weights = trial.checkpoints[2].state["model"].values()
        assert {weight.dtype for weight in weights} == {torch.float32}
