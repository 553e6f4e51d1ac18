"""The synthetic corpus must be a translation task: each claim is measured on the default corpus."""

import math
import os
import re
import subprocess
import sys
from collections import defaultdict
from random import Random

import pytest
import sacrebleu

from transformer.data import synthetic
from transformer.data.synthetic import Derivation, Grammar

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


def bleu(hypotheses: list[str], references: list[str]) -> float:
    return float(sacrebleu.corpus_bleu(hypotheses, [references]).score)


def sentences(derivations: Derivations, pattern: str) -> list[str]:
    texts = [derivation.text[1] for split in derivations.values() for derivation in split]
    return [text for text in texts if re.search(pattern, text)]


def test_word_for_word_translation_scores_under_25_bleu(corpus: Corpus) -> None:
    lexicon = train_lexicon(corpus["train"][:4000])
    assert (lexicon["books"], lexicon["has"], lexicon["because"]) == ("Bücher", "hat", "weil")
    test = corpus["test"]
    score = bleu([translate(lexicon, source) for source, _ in test], [target for _, target in test])
    assert 1 < score < 25


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_quarter_of_the_sentences_hold_a_noun_verb_pair_unseen_in_training(
    derivations: Derivations, split: str
) -> None:
    seen = frozenset[tuple[str, str]]().union(*(derivation.pairs for derivation in derivations["train"]))
    unseen = [bool(derivation.pairs - seen) for derivation in derivations[split]]
    assert sum(unseen) >= len(unseen) / 4


def test_held_out_pairs_follow_from_the_seed_and_stay_out_of_training() -> None:
    assert synthetic.held_out(1) == synthetic.held_out(1) != synthetic.held_out(2)
    made = synthetic.derivations(synthetic.Sizes(train=500, dev=10, test=10), seed=2)
    assert not any(derivation.pairs & synthetic.held_out(2) for derivation in made["train"])
    assert any(derivation.pairs & synthetic.held_out(1) for derivation in made["train"])


def test_every_word_of_dev_and_test_occurs_in_training(derivations: Derivations) -> None:
    for side in ("source", "target"):
        known = {word for derivation in derivations["train"] for word in getattr(derivation, side)}
        assert {word for s in ("dev", "test") for d in derivations[s] for word in getattr(d, side)} <= known


def test_splits_are_disjoint_and_without_duplicates(corpus: Corpus) -> None:
    pairs = [pair for split in corpus.values() for pair in split]
    assert len(pairs) == len(set(pairs)) == len({source for source, _ in pairs})


def test_each_source_has_one_translation_in_all_derivations() -> None:
    rng, translations = Random(3), dict[str, str]()
    repeated = 0
    for _ in range(8000):
        source, target = Grammar(rng).derive(Grammar.question).text
        repeated += source in translations
        assert translations.setdefault(source, target) == target
    assert repeated > 100


def test_text_is_the_same_in_two_processes_with_different_hash_seeds() -> None:
    code = "from transformer.data.synthetic import *; print(ascii(generate(Sizes(300, 50, 50))))"
    texts = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
        texts.append(run.stdout)
    assert texts[0] == texts[1] != b""


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"^(Heute|Jetzt|Oft) (hat|kann|sieht|macht) ", id="verb second after an adverb"),
        pytest.param(r", dass .* gesehen hat\.$", id="verb final after dass"),
        pytest.param(r", weil .* aufhebt\.$", id="prefix joined in a subordinate clause"),
        pytest.param(r"^Der \w+, den .*, \w+", id="object relative clause"),
        pytest.param(r" (hilft|dankt) (dem|einem|der|einer|den) ", id="verb with the dative"),
        pytest.param(r" (gibt|zeigt) (dem|einem) \w+ (den|das|die) ", id="receiver before thing"),
        pytest.param(r" (weiß|wissen), dass ", id="know a fact"),
        pytest.param(r" (Ball|Brief|Buch) auf (den|die|das) \w+ gelegt", id="put down flat"),
    ],
)
def test_phenomenon_occurs(derivations: Derivations, pattern: str) -> None:
    assert len(sentences(derivations, pattern)) >= 5


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"\b[Dd](ie|as) Mann\b", id="article against gender"),
        pytest.param(r"\b(den|dem|einen|einem) Junge\b", id="weak noun without ending"),
        pytest.param(r"^Die (Männer|Frauen|Kinder) (hat|kann|sieht|macht)\b", id="singular verb after plural"),
        pytest.param(r"(dass|weil) (der|die|das) \w+ (hat|haben|kann|können) ", id="verb second after dass"),
        pytest.param(r"hilft den (Mann|Hund|Lehrer)\b", id="accusative after helfen"),
    ],
)
def test_error_does_not_occur(derivations: Derivations, pattern: str) -> None:
    assert sentences(derivations, pattern) == []
