"""Work that takes long gives signs of life, at least one per batch, sentence or file: otherwise it counts as hung."""

from pathlib import Path

import pytest
from small_trials import DECODE, copy_data, random_pairs, small_model

from transformer.config import DataConfig
from transformer.data.batches import evaluation_batches
from transformer.data.fingerprint import fingerprint
from transformer.data.here import prepare_here
from transformer.data.prepare import prepare
from transformer.decoding.evaluate_set import translate_set
from transformer.decoding.translate import Translator
from transformer.processes.alive import signs
from transformer.training.parallel import StopVote, Worker
from transformer.training.perplexity import sentence_nats

WORKER = Worker(tokens_per_micro_batch=60)


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    return copy_data(tmp_path, (60, 20, 5), "abcdef", longest=8, vocab_size=270)


def test_perplexity_gives_one_per_batch() -> None:
    pairs = random_pairs(40)
    batches = len(list(evaluation_batches(pairs, WORKER.tokens_per_micro_batch, WORKER.rank, WORKER.world)))
    before = signs()
    sentence_nats(small_model(), pairs, "fp32", WORKER)
    assert signs() - before >= batches > 5


def test_translation_of_a_set_gives_one_per_sentence(data: DataConfig, tmp_path: Path) -> None:
    prepared = prepare(data, tmp_path)
    pairs, translator = prepared.pairs("dev"), Translator(small_model(270), prepared.vocabulary, DECODE, "fp32")
    before = signs()
    translate_set(translator, pairs, WORKER)
    assert signs() - before >= len(pairs) == 20


def test_training_gives_one_per_vote_on_a_stop() -> None:
    vote, before = StopVote(WORKER), signs()
    assert not any(vote.agreed() for _ in range(3))
    assert signs() - before >= 3


def test_preparing_gives_one_per_file(data: DataConfig, tmp_path: Path) -> None:
    before = signs()
    prepare_here(data, tmp_path / "new", fingerprint(data), "")
    assert signs() - before >= 6  # train, dev and test in two languages
