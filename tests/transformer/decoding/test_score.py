"""Perplexity, BLEU and chrF of a set, and the order of its translations."""

import math
from dataclasses import asdict, replace

import pytest
import sacrebleu
import torch
from small_trials import DECODE, SMALL, copy_data, random_pairs, small_model, small_trial

from transformer.data.pieces import BOS
from transformer.data.prepare import ParallelSet, Prepared, prepare
from transformer.decoding.score import judge, text_scores, translate_set
from transformer.decoding.search import beam_search
from transformer.model.encoder_decoder import Transformer
from transformer.training.parallel import Worker
from transformer.training.train import dev_nll

WORDY = replace(DECODE, alpha=5.0, max_extra=20)
"""So that a model that has learned nothing writes something."""


@torch.no_grad()
def nats(model: Transformer, pairs: ParallelSet) -> tuple[float, int]:
    """Total −log P of every target, a sentence at a time, and the number of its pieces."""
    total, pieces = 0.0, 0
    for i in range(len(pairs)):
        source, target = (torch.tensor(side[i].tolist())[None] for side in (pairs.source, pairs.target))
        shifted = torch.cat([torch.tensor([[BOS]]), target[:, :-1]], 1)
        log_p = torch.log_softmax(model.logits(model(source, shifted)).double(), -1)
        total -= float(log_p.gather(2, target[:, :, None]).sum())
        pieces += target.numel()
    return total, pieces


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("copies")
    return prepare(copy_data(folder, (60, 20, 5), "abcdef", longest=8, vocab_size=270), folder)


@pytest.mark.parametrize("tokens_per_batch", [20, 97, 5000])
def test_nats_a_piece_are_those_of_the_whole_set_without_dropout_or_smoothing(tokens_per_batch: int) -> None:
    model, pairs = small_model(p_drop=0.3).train(), random_pairs(40)
    trial = small_trial(label_smoothing=0.2, tokens_per_batch=tokens_per_batch)
    found = dev_nll(model, pairs, trial, Worker())
    total, pieces = nats(model.eval(), pairs)
    assert pieces == pairs.target.lengths.sum()
    assert found == pytest.approx(total / pieces, rel=1e-5)


def test_judging_leaves_a_model_in_training_as_it_was() -> None:
    model = small_model(p_drop=0.3).train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    dev_nll(model, random_pairs(5), small_trial(), Worker())
    assert model.training
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_translations_come_in_the_order_of_the_set(prepared: Prepared) -> None:
    model, trial = small_model(270), small_trial(decode=WORDY)
    found = translate_set(model, prepared, "dev", trial, Worker())
    pairs, expected = prepared.pairs("dev"), []
    for i in range(len(pairs)):
        best = beam_search(model, torch.tensor(pairs.source[i].tolist())[None], trial.decode)[0][0]
        expected += prepared.vocabulary.decode([best.pieces])
    assert found == expected
    assert len(set(found)) > 10


def test_a_set_is_judged_by_perplexity_and_by_its_text(prepared: Prepared) -> None:
    model, trial = small_model(270), small_trial(decode=WORDY)
    scores, hypotheses = judge(model, prepared, "dev", trial, Worker())
    references = prepared.references("dev")
    total, pieces = nats(model, prepared.pairs("dev"))
    assert scores["nll"] == pytest.approx(total / pieces, rel=1e-5)
    assert scores["ppl"] == pytest.approx(math.exp(scores["nll"]))
    assert scores["bleu"] == sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(hypotheses, [references]).score
    assert scores["decode"] == asdict(trial.decode)


def test_decoding_settings_are_used(prepared: Prepared) -> None:
    model = small_model(270)
    short, long = (
        translate_set(model, prepared, "dev", small_trial(decode=decode), Worker()) for decode in (DECODE, WORDY)
    )
    assert sum(map(len, short)) < sum(map(len, long))


def test_bleu_is_cased_and_tokenised_as_13a_and_says_so() -> None:
    text = ["The dog sees the old man in the garden ."]
    assert text_scores(text, text)["bleu"] == pytest.approx(100)
    assert text_scores(["The dog sees the old man in the garden."], text)["bleu"] == pytest.approx(100)
    assert text_scores([text[0].lower()], text)["bleu"] < 95
    signature = text_scores(text, text)["signature"]
    for part in ("nrefs:1", "case:mixed", "eff:no", "tok:13a", "smooth:exp", "version:"):
        assert part in signature


def test_a_hopeless_model_has_a_finite_perplexity(prepared: Prepared) -> None:
    model = small_model(270)
    with torch.no_grad():
        model.decoder[-1].feed_forward_residual.norm.weight *= 5000
    trial = small_trial(model=SMALL)
    assert dev_nll(model, prepared.pairs("dev"), trial, Worker()) > 700
    scores, _ = judge(model, prepared, "dev", trial, Worker())
    assert math.isfinite(scores["ppl"])
