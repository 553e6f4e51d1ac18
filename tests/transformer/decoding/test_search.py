"""Beam search against searches written out with the full forward pass."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_trials import DECODE, damaged_model, last_norm, small_model
from torch import Tensor

from transformer.config import DecodeConfig
from transformer.data.vocabulary import BOS, EOS, PAD
from transformer.decoding.search import Hypothesis, beam_search
from transformer.faults import NotFiniteError
from transformer.model.encoder_decoder import Transformer

GOING_ON = [1, 4, 5, 6, 7]
"""The pieces allowed in outputs, from a vocabulary of eight."""


def peaked(vocab_size: int = 8, sureness: float = 2.0, seed: int = 1) -> Transformer:
    """A random model whose distributions are far from uniform."""
    model = small_model(vocab_size, seed)
    with torch.no_grad():
        last_norm(model).weight.mul_(sureness)
    return model


def never_ending(**changes: Any) -> Transformer:
    """A model with probability zero for end-of-sentence: its logit is −∞."""
    model = small_model(8, **changes)
    with torch.no_grad():
        norm = last_norm(model)
        norm.weight[0] = 0.0
        norm.bias[0] = 10.0
        model.embedding[EOS] = 0.0
        model.embedding[EOS, 0] = -1e38
    return model


def source(*pieces: int) -> Tensor:
    return torch.tensor([pieces])


def padded(*sentences: Tensor) -> Tensor:
    rows = [sentence[0] for sentence in sentences]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


@torch.no_grad()
def next_log_p(model: Transformer, sentence: Tensor, pieces: tuple[int, ...]) -> list[float]:
    """log P of every next piece; padding and beginning-of-sentence are never generated."""
    logits = model.logits(model(sentence, torch.tensor([[BOS, *pieces]])))[0, -1]
    logits[[PAD, BOS]] = -torch.inf
    return torch.log_softmax(logits.double(), -1).tolist()


@torch.no_grad()
def log_p(model: Transformer, sentence: Tensor, pieces: tuple[int, ...]) -> float:
    """log P of a full output, in one forward pass."""
    logits = model.logits(model(sentence, torch.tensor([[BOS, *pieces[:-1]]])))[0]
    logits[:, [PAD, BOS]] = -torch.inf
    log_probabilities = torch.log_softmax(logits.double(), -1).gather(
        1, torch.tensor(pieces)[:, None]
    )
    return float(log_probabilities.sum())


def score(model: Transformer, sentence: Tensor, pieces: tuple[int, ...], alpha: float) -> float:
    return float(log_p(model, sentence, pieces) / ((5 + len(pieces)) / 6) ** alpha)


def every_output(
    model: Transformer, sentence: Tensor, longest: int, alpha: float
) -> list[Hypothesis]:
    """Every finished output of at most ``longest`` pieces, best first."""
    outputs = []
    going_on = [piece for piece in range(model.vocab_size) if piece not in (PAD, BOS, EOS)]
    for length in range(longest):
        for pieces in itertools.product(going_on, repeat=length):
            outputs.append(Hypothesis(list(pieces), score(model, sentence, (*pieces, EOS), alpha)))
    return sorted(outputs, key=lambda h: -h.score)


def patient(model: Transformer, sentence: Tensor, decode: DecodeConfig) -> list[Hypothesis]:
    """The same beam search without cache, batch or early stop: it always continues to the longest
    output."""
    unfinished: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished: list[Hypothesis] = []
    for length in range(1, sentence.shape[1] + decode.max_extra + 1):
        grown = []
        for pieces, total in unfinished:
            following = next_log_p(model, sentence, pieces)
            grown += [((*pieces, p), total + following[p]) for p in range(len(following))]
        grown.sort(key=lambda h: -h[1])
        for pieces, total in grown[: decode.beam]:
            if pieces[-1] == EOS and total > -math.inf:
                finished.append(
                    Hypothesis(list(pieces[:-1]), total / ((5 + length) / 6) ** decode.alpha)
                )
        unfinished = [h for h in grown if h[0][-1] != EOS][: decode.beam]
    best_unfinished = [
        Hypothesis(list(p), total / ((5 + length) / 6) ** decode.alpha) for p, total in unfinished
    ]
    return sorted(finished, key=lambda h: -h.score)[: decode.beam] or best_unfinished


def greedy(model: Transformer, sentence: Tensor, longest: int) -> tuple[list[int], bool]:
    """The likeliest piece every time, and whether end-of-sentence came in time."""
    pieces: tuple[int, ...] = ()
    while len(pieces) < longest:
        following = next_log_p(model, sentence, pieces)
        best = max(range(len(following)), key=following.__getitem__)
        if best == EOS:
            return list(pieces), True
        pieces = (*pieces, best)
    return list(pieces), False


def assert_same(actual: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [h.pieces for h in actual] == [h.pieces for h in expected]
    assert [h.score for h in actual] == pytest.approx(
        [h.score for h in expected], rel=1e-4, abs=1e-5
    )


SENTENCES = [source(5, 4, 6), source(7), source(4, 4, 4, 4), source(6, 5), source(1, 7, 4, 6, 5)]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize(("vocab_size", "longest"), [(8, 2), (5, 4)])
def test_a_beam_as_wide_as_the_space_finds_every_output_in_order(
    alpha: float, vocab_size: int, longest: int
) -> None:
    model = peaked(vocab_size)
    sentence = source(4)
    decode = replace(DECODE, beam=31, alpha=alpha, max_extra=longest - sentence.shape[1])
    (hypotheses,) = beam_search(model, sentence, decode)
    expected = every_output(model, sentence, longest, alpha)
    assert_same(hypotheses[: len(expected)], expected)


@pytest.mark.parametrize(("beam", "alpha"), [(2, 0.0), (2, 4.0), (4, 0.6), (4, 1.5)])
def test_stopping_early_and_caching_change_nothing(
    beam: int, alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = replace(DECODE, beam=beam, alpha=alpha, max_extra=12)
    steps: list[None] = []
    step = Transformer.step

    def counted(*inputs: Any) -> Tensor:
        steps.append(None)
        return step(*inputs)

    monkeypatch.setattr(Transformer, "step", counted)
    stopped_early = 0
    for seed in range(24):
        sentence = SENTENCES[seed % len(SENTENCES)]
        model = peaked(12, sureness=5.0, seed=seed)
        expected = patient(model, sentence, decode)
        assert_same(beam_search(model, sentence, decode)[0], expected)
        steps.clear()
        assert_same(beam_search(model, sentence, decode, n_best=1)[0], expected[:1])
        stopped_early += len(steps) < sentence.shape[1] + decode.max_extra
    assert stopped_early >= 1


@pytest.mark.parametrize("alpha", [0.0, 4.0])
def test_a_beam_of_one_is_greedy_for_any_alpha(alpha: float) -> None:
    n_ended = 0
    for seed, sentence in itertools.product(range(11, 15), SENTENCES):
        model = peaked(seed=seed)
        longest = sentence.shape[1] + 6
        pieces, ends = greedy(model, sentence, longest)
        ((hypothesis,),) = beam_search(
            model, sentence, replace(DECODE, beam=1, alpha=alpha, max_extra=6)
        )
        expected = score(model, sentence, (*pieces, EOS) if ends else tuple(pieces), alpha)
        assert_same([hypothesis], [Hypothesis(pieces, expected)])
        n_ended += ends
    assert 5 <= n_ended <= 15


@pytest.mark.parametrize("beam", [1, 4])
def test_a_translation_does_not_depend_on_its_batch(beam: int) -> None:
    model = peaked(30)
    decode = replace(DECODE, beam=beam)
    together = beam_search(model, padded(*SENTENCES), decode)
    backwards = beam_search(model, padded(*SENTENCES[::-1]), decode)[::-1]
    for sentence, first, second in zip(SENTENCES, together, backwards, strict=True):
        (single,) = beam_search(model, sentence, decode)
        assert_same(first, single)
        assert_same(second, single)


@pytest.mark.parametrize("max_extra", [0, 3])
def test_without_an_end_each_sentence_has_the_best_outputs_of_its_own_longest_length(
    max_extra: int,
) -> None:
    model = never_ending()
    decode = replace(DECODE, max_extra=max_extra)
    for sentence, hypotheses in zip(
        SENTENCES, beam_search(model, padded(*SENTENCES), decode), strict=True
    ):
        assert {len(h.pieces) for h in hypotheses} == {sentence.shape[1] + max_extra}
        assert_same(hypotheses, patient(model, sentence, decode))


@pytest.mark.parametrize(("positions", "longest"), [("sinusoids", 53), ("learned", 6)])
def test_learned_positions_limit_the_output_and_sinusoids_go_on(
    positions: str, longest: int
) -> None:
    model = never_ending(max_positions=6, positions=positions)
    (hypotheses,) = beam_search(model, source(5, 4, 6), replace(DECODE, max_extra=50))
    assert {len(h.pieces) for h in hypotheses} == {longest}


@pytest.mark.parametrize(
    "sentence", [source(EOS), source(5), source(5, EOS), source(1, EOS)], ids=str
)
@pytest.mark.parametrize("beam", [1, 4])
def test_the_shortest_sentences_are_searched_like_any_other(sentence: Tensor, beam: int) -> None:
    decode = replace(DECODE, beam=beam, alpha=0.0, max_extra=3)
    expected = patient(peaked(12), sentence, decode)
    (hypotheses,) = beam_search(peaked(12), sentence, decode)
    assert_same(hypotheses[:1], expected[:1])
    together = beam_search(peaked(12), padded(SENTENCES[4], sentence), decode)
    assert_same(together[1], hypotheses)


@pytest.mark.parametrize(("beam", "n_best"), [(1, None), (4, None), (4, 1)])
def test_nan_is_an_error_that_names_the_sentences(beam: int, n_best: int | None) -> None:
    sentences = padded(
        source(4, EOS), source(*[5] * 8, EOS), source(*[4] * 5, EOS), source(*[6] * 6, EOS)
    )
    with pytest.raises(
        NotFiniteError, match=r"^sentence 2: the model's output is not a finite number\. "
    ) as raised:
        beam_search(damaged_model(longest=6), sentences, replace(DECODE, beam=beam), n_best)
    assert raised.value.places == [1, 3]
