"""The synthetic corpus is always the same text, and a translation task."""

import hashlib
import math
import re
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
import sacrebleu

from transformer.data import synthetic
from transformer.data.corpora import CORPORA
from transformer.data.synthetic import Derivation, Grammar
from transformer.data.vocabulary import Vocabulary, build

Corpus = dict[str, list[tuple[str, str]]]
Derivations = dict[str, list[Derivation]]


@pytest.fixture(scope="module")
def corpus(derivations: Derivations) -> Corpus:
    """What ``generate()`` makes of them."""
    return {split: [derivation.text for derivation in derived] for split, derived in derivations.items()}


@pytest.fixture(scope="module")
def derivations() -> Derivations:
    return synthetic.derivations()


def words(sentence: str) -> list[str]:
    """Words without punctuation; a capitalized first word is lowercased unless it is a noun."""
    first, *others = re.findall(r"\w+", sentence)
    return [first.lower(), *others]


def train_lexicon(pairs: list[tuple[str, str]], rounds: int = 5) -> dict[str, str]:
    """IBM model 1 (Brown et al. 1993): the likeliest target word of each source word."""
    bitext = [(words(source), words(target)) for source, target in pairs]
    probability: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for _ in range(rounds):
        joint, total = defaultdict[tuple[str, str], float](float), defaultdict[str, float](float)
        for sources, targets in bitext:
            for target in targets:
                norm = math.fsum(probability[source, target] for source in sources)
                for source in sources:
                    share = probability[source, target] / norm
                    joint[source, target] += share
                    total[source] += share
        probability = defaultdict(float, {key: value / total[key[0]] for key, value in joint.items()})
    best: dict[str, str] = {}
    for source, target in sorted(probability, key=lambda key: probability[key]):
        best[source] = target
    return best


def translate(lexicon: dict[str, str], sentence: str) -> str:
    """Word by word; the source's punctuation is kept."""
    text = re.sub(r"\w+", lambda match: lexicon[match[0]], sentence[0].lower() + sentence[1:])
    return text[0].upper() + text[1:]


def test_the_corpus_is_the_one_of_its_version(corpus: Corpus) -> None:
    """Whatever was checked of it stays true. For other text, raise ``GRAMMAR_VERSION``."""
    in_order = {split: corpus[split] for split in ("train", "dev", "test")}
    assert synthetic.PARAMETERS["version"] == 1
    assert hashlib.sha256(repr(in_order).encode()).hexdigest()[:16] == "b00aa9dbcac45c14"


def test_a_planned_length_is_near_the_real_one(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "vocabulary.model").write_bytes(build((line for pair in corpus["train"] for line in pair), 1000))
    vocabulary, declared = Vocabulary(tmp_path / "vocabulary.model"), CORPORA["synthetic"].mean_lengths
    lengths = [sum(map(len, vocabulary.encode(list(side)))) / 12_000 for side in zip(*corpus["train"], strict=True)]
    assert lengths == pytest.approx(declared, rel=0.02)


def test_word_for_word_translation_scores_under_25_bleu(corpus: Corpus) -> None:
    lexicon = train_lexicon(corpus["train"][:2000])
    assert (lexicon["books"], lexicon["has"], lexicon["because"]) == ("Bücher", "hat", "weil")
    test = corpus["test"]
    hypotheses = [translate(lexicon, source) for source, _ in test]
    assert 1 < sacrebleu.corpus_bleu(hypotheses, [[target for _, target in test]]).score < 25


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_quarter_of_the_sentences_hold_a_noun_verb_pair_unseen_in_training(
    derivations: Derivations, split: str
) -> None:
    seen = frozenset[tuple[str, str]]().union(*(derivation.pairs for derivation in derivations["train"]))
    unseen = [bool(derivation.pairs - seen) for derivation in derivations[split]]
    assert sum(unseen) >= len(unseen) / 4


def test_each_source_has_one_translation_in_all_derivations() -> None:
    rng, translations = Random(3), dict[str, str]()
    repeated = 0
    for _ in range(8000):
        source, target = Grammar(rng).derive(Grammar.question).text
        repeated += source in translations
        assert translations.setdefault(source, target) == target
    assert repeated > 100
