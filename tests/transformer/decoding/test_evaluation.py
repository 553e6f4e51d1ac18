"""Evaluation of a set: perplexity of its references, and scores of the translations of its
sources."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from small_trials import (
    DECODE,
    copy_data,
    damaged_model,
    last_norm,
    prepared_text,
    random_pairs,
    small_model,
    small_trial,
)

from transformer.data.prepared import ParallelSet, Prepared
from transformer.data.vocabulary import BOS, EOS
from transformer.decoding.evaluation import EvaluationSet, evaluate_set, translate_set
from transformer.decoding.search import beam_search
from transformer.decoding.translator import Translator
from transformer.faults import NotFiniteError
from transformer.model.encoder_decoder import Transformer
from transformer.training.loss import likelihoods
from transformer.training.train import dev_metrics
from transformer.training.worker_group import Worker

WORDY = replace(DECODE, alpha=5.0, max_extra=20)
"""Settings that make an untrained model write something."""


@torch.no_grad()
def nats(model: Transformer, pairs: ParallelSet) -> list[float]:
    """−log P of every target, one sentence at a time."""
    sentence_nats = []
    for i in range(len(pairs)):
        source, target = (
            torch.tensor(side[i].tolist())[None] for side in (pairs.source, pairs.target)
        )
        shifted = torch.cat([torch.tensor([[BOS]]), target[:, :-1]], 1)
        log_p = torch.log_softmax(model.logits(model(source, shifted)).double(), -1)
        sentence_nats.append(-float(log_p.gather(2, target[:, :, None]).sum()))
    return sentence_nats


@torch.no_grad()
def right_pieces(model: Transformer, pairs: ParallelSet, index: int) -> int:
    """Piece by piece: those of one target that the model ranks first after the gold pieces before
    them."""
    source, target = (side[index].tolist() for side in (pairs.source, pairs.target))
    n_right = 0
    for position, piece in enumerate(target):
        prefix = torch.tensor([[BOS, *target[:position]]])
        logits = model.logits(model(torch.tensor([source]), prefix))[0, -1].tolist()
        n_right += logits.index(max(logits)) == piece
    return n_right


@pytest.fixture
def wordy(copies: Prepared) -> Translator:
    return Translator(small_model(270), copies.vocabulary, WORDY, "fp32")


@pytest.mark.parametrize("tokens_per_micro_batch", [20, 97, 5000])
def test_nats_are_those_of_each_sentence_alone_and_a_mean_is_over_all_pieces(
    tokens_per_micro_batch: int,
) -> None:
    """Without dropout or smoothing."""
    model = small_model(p_drop=0.3)
    pairs = random_pairs(40)
    worker = Worker(tokens_per_micro_batch=tokens_per_micro_batch)
    expected = nats(model, pairs)
    sentences = likelihoods(model, pairs, "fp32", worker)
    assert [sentence.nats for sentence in sentences] == pytest.approx(expected, rel=1e-5)
    mean = sum(expected) / pairs.target.lengths.sum()
    on_dev = dev_metrics(model.train(), pairs, small_trial(label_smoothing=0.2), worker)
    assert on_dev["dev/nll"] == pytest.approx(mean, rel=1e-5)
    right_counts = [right_pieces(model.eval(), pairs, i) for i in range(len(pairs))]
    assert [sentence.right for sentence in sentences] == right_counts
    assert on_dev["dev/accuracy"] == sum(right_counts) / pairs.target.lengths.sum()
    assert 0 < sum(right_counts) < pairs.target.lengths.sum()


def test_of_equally_likely_pieces_the_first_counts() -> None:
    """Without weights, every piece is as likely as the padding piece, which no sentence has."""
    model = small_model()
    pairs = random_pairs(5)
    last_norm(model).weight.data.zero_()
    last_norm(model).bias.data.zero_()
    assert [sentence.right for sentence in likelihoods(model, pairs, "fp32", Worker())] == [0] * 5


def test_a_sentence_has_its_counts_and_the_set_their_share(
    wordy: Translator, copies: Prepared
) -> None:
    evaluation = evaluate_set(wordy, EvaluationSet.of(copies, "dev", small_trial()), Worker())
    assert evaluation is not None
    pairs = copies.pairs("dev")
    right_counts = [right_pieces(wordy.model, pairs, i) for i in range(len(pairs))]
    assert [sample["right"] for sample in evaluation.samples] == right_counts
    assert [sample["pieces"] for sample in evaluation.samples] == pairs.target.lengths.tolist()
    assert evaluation.scores["accuracy"] == sum(right_counts) / pairs.target.lengths.sum()


def test_translations_come_in_the_order_of_the_set(wordy: Translator, copies: Prepared) -> None:
    translations = translate_set(wordy, copies.pairs("dev").source, Worker())
    pairs = copies.pairs("dev")
    expected = []
    for i in range(len(pairs)):
        best = beam_search(wordy.model, torch.tensor(pairs.source[i].tolist())[None], wordy.decode)[
            0
        ][0]
        expected += copies.vocabulary.decode([best.pieces])
    assert translations == [" ".join(line.splitlines()) for line in expected]
    assert len(set(translations)) > 10


def test_results_are_yielded_before_later_ones_are_computed(wordy: Translator) -> None:
    greedy = replace(wordy, decode=replace(WORDY, beam=1, max_extra=0))
    sources, _ = greedy.sources(["a"] * 600)
    no_pieces = [9_999] * 20 + [EOS]  # the model fails on them, in a separate batch
    results = greedy.translations([*sources, no_pieces])
    assert len(list(islice(results, 600))) == 600
    with pytest.raises(IndexError):
        next(results)


def test_nan_is_an_error_that_names_set_and_sentence(copies: Prepared) -> None:
    pairs = copies.pairs("dev")
    lost = np.flatnonzero(pairs.source.lengths > 8).tolist()
    assert lost[0] > 0
    translator = Translator(damaged_model(270, 8), copies.vocabulary, DECODE, "fp32")
    with pytest.raises(NotFiniteError, match=f"^dev, sentence {lost[0] + 1}: "):
        evaluate_set(translator, EvaluationSet.of(copies, "dev", small_trial()), Worker())
    with pytest.raises(NotFiniteError, match=f"^dev, sentence {lost[0] + 1}: ") as raised:
        dev_metrics(translator.model, pairs, small_trial(), Worker())
    assert raised.value.places == lost
    with pytest.raises(NotFiniteError) as raised:
        translate_set(translator, pairs.source, Worker())
    assert raised.value.places == lost


def test_scores_say_over_which_pieces_they_are(tmp_path: Path) -> None:
    """The same text in two vocabularies."""
    digests = dict[tuple[int, str], set[str]]()
    for vocab_size in (270, 272, 270):
        folder = tmp_path / f"{len(digests)}-{vocab_size}"
        folder.mkdir()
        data = copy_data(folder, (60, 4, 3), "abcdef", longest=8, vocab_size=vocab_size)
        text = prepared_text(data, folder)
        translator = Translator(
            small_model(vocab_size), text.vocabulary, replace(DECODE, beam=1), "fp32"
        )
        for name in ("dev", "test"):
            evaluation = evaluate_set(
                translator,
                EvaluationSet.of(text, name, replace(small_trial(), data=data)),
                Worker(),
            )
            assert evaluation is not None
            digests.setdefault((vocab_size, name), set()).add(evaluation.scores["pieces"])
    assert all(len(digest) == 1 for digest in digests.values()), (
        "equal text and vocabulary, equal digest"
    )
    assert len(set.union(*digests.values())) == 4
