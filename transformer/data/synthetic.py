"""A parallel corpus from a synchronous grammar, English-like to German-like, for machines without a network.

A tenth of the noun-verb pairs never occurs in training and half of the dev and test sentences contain one
of them: a model that only memorizes sentences fails there. Every source has one translation.
"""

from dataclasses import asdict, dataclass
from random import Random

from transformer.data import synthetic_lexicon as lexicon
from transformer.data.synthetic_grammar import MAX_WORDS, Derivation, Pair, derive

VERSION = 1  # increase it with every change of words, rules or rates: it is part of the data fingerprint
SEED = 1
HELD_OUT = 0.1


@dataclass(frozen=True)
class Sizes:
    """Sentence pairs in each split."""

    train: int = 12_000
    dev: int = 400
    test: int = 400


def held_out(seed: int = SEED) -> frozenset[Pair]:
    """The (noun, verb) pairs, as source words, that training never shows in any role."""
    verbs = lexicon.VERBS + lexicon.STATES + lexicon.SAYING
    every = sorted({(noun.source, verb.source[0]) for verb in verbs for noun in lexicon.PEOPLE + verb.objects})
    return frozenset(Random(f"{seed}/held out").sample(every, round(HELD_OUT * len(every))))


def derivations(sizes: Sizes | None = None, seed: int = SEED) -> dict[str, list[Derivation]]:
    """Splits share no source. Test comes first, so that it does not change with the other sizes."""
    held, taken = held_out(seed), set[str]()
    counts = asdict(sizes or Sizes())
    return {split: _split(split, counts[split], seed, held, taken) for split in ("test", "dev", "train")}


def _split(split: str, size: int, seed: int, held: frozenset[Pair], taken: set[str]) -> list[Derivation]:
    """Every other dev and test sentence contains an unseen pair, so that the two halves can be compared."""
    made: list[Derivation] = []
    rng = Random(f"{seed}/{split}")
    while len(made) < size:
        derivation = derive(rng)
        unseen = split != "train" and len(made) % 2 == 0
        if bool(derivation.pairs & held) == unseen and derivation.text[0] not in taken:
            taken.add(derivation.text[0])
            made.append(derivation)
    return made


def generate(sizes: Sizes | None = None, seed: int = SEED) -> dict[str, list[Pair]]:
    """(source, target) sentences of `train`, `dev` and `test`; the same on every machine."""
    made = derivations(sizes, seed)
    return {split: [derivation.text for derivation in made[split]] for split in ("train", "dev", "test")}


def parameters() -> dict[str, object]:
    """Everything that determines the default text, for a fingerprint; `version` covers words and rules."""
    sizes = asdict(Sizes())
    return {"version": VERSION, "seed": SEED, "held_out": HELD_OUT, "max_words": MAX_WORDS, "sizes": sizes}
