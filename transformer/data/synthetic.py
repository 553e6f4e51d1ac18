"""A parallel corpus from a synchronous grammar, for machines without a network.

It translates English-like to German-like sentences. A tenth of the noun-verb pairs never occurs in
training, and half of the dev and test sentences contain one of them: a model that only memorizes
sentences fails there. Every source has one translation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from transformer.data.synthetic_words import (
    ADJECTIVES,
    ADVERBS,
    AFTER_A,
    AFTER_THE,
    GENDERS,
    HELPERS,
    KNOWING,
    LOCATIONS,
    MOODS,
    PEOPLE,
    SAYING,
    STATES,
    SURFACES,
    THE,
    VERBS,
    A,
    Noun,
    Verb,
)

MAX_WORDS = 15
PLURAL = 0.4  # this and the next four: probabilities
INDEFINITE = 0.3
ADJECTIVE = 0.2
WITH_PLACE = 0.15
WHOM = 0.4
TextPair = tuple[str, str]


@dataclass(frozen=True)
class Phrase:
    """The same content in both languages."""

    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(self.source + other.source, self.target + other.target)


@dataclass(frozen=True)
class Clause:
    """The parts of a clause, which the kind of clause orders.

    `verb` is the source's verb. `finite` and `tail` are the target's verb in a main clause, and
    `verb_cluster` at the end of a subordinate clause. `complement` is what the verb governs.
    """

    subject: Phrase
    verb: list[str]
    finite: str
    tail: list[str]
    verb_cluster: list[str]
    complement: Phrase

    @property
    def source(self) -> list[str]:
        """The source words: subject, verb, complement."""
        return self.subject.source + self.verb + self.complement.source

    def second(self, front: list[str] | None = None) -> list[str]:
        """The target words of a main clause, whose finite verb is second.

        It comes after `front`, or after the subject if `front` is None; [] makes a question.
        """
        subject = self.subject.target
        start = [*subject, self.finite] if front is None else [*front, self.finite, *subject]
        return start + self.complement.target + self.tail

    def final(self) -> list[str]:
        """The target words of a subordinate clause, whose verbs are final."""
        return self.subject.target + self.complement.target + self.verb_cluster


def _phrase(row: str) -> Phrase:
    """Alternating source and target words; "+" joins source words that share one translation."""
    words = row.split()
    source: list[str] = []
    for joined_words in words[::2]:
        source += joined_words.split("+")
    return Phrase(source, words[1::2])


class Grammar:
    """Makes one sentence, and collects the noun-verb `pairs` in it.

    `_used` prevents a noun from occurring twice.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._used: set[Noun] = set()
        self.pairs: set[TextPair] = set()

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def _choose(self, rows: Sequence[str]) -> Phrase:
        return _phrase(self._rng.choice(rows))

    def _noun(self, nouns: Sequence[Noun], verb: Verb) -> Noun:
        """A noun that the sentence does not have yet; notes its pair with the verb."""
        unused = [noun for noun in nouns if noun not in self._used]
        noun = self._rng.choice(unused)
        self._used.add(noun)
        self.pairs.add((noun.source, verb.source[0]))
        return noun

    def _noun_phrase(self, noun: Noun, case: str, plural: bool, before: str = "") -> Phrase:
        """Article, perhaps an adjective, and noun; `before` is a source word such as "to+"."""
        indefinite = not plural and self._chance(INDEFINITE)
        articles = A if indefinite else THE
        endings = AFTER_A if indefinite else AFTER_THE
        source_article = "a" if indefinite else "the"
        article = _form(articles[case], noun, plural)
        phrase = _phrase(f"{before}{source_article} {article}")
        if self._chance(ADJECTIVE):
            adjective = self._rng.choice(ADJECTIVES)
            phrase += _phrase(adjective + _form(endings[case], noun, plural))
        source_noun = noun.sources if plural else noun.source
        return phrase + _phrase(f"{source_noun} {noun.decline(case, plural)}")

    def _object(self, nouns: Sequence[Noun], verb: Verb, case: str, before: str = "") -> Phrase:
        """A noun phrase with one of these nouns, singular or plural."""
        noun = self._noun(nouns, verb)
        plural = self._chance(PLURAL)
        return self._noun_phrase(noun, case, plural, before)

    def _complement(self, verb: Verb) -> Phrase:
        """What follows the verb in the source: objects and place, by the verb's frame.

        The target puts the receiver before the thing.
        """
        place = self._choose(LOCATIONS) if self._chance(WITH_PLACE) else Phrase()
        if verb.frame == "none":
            return place
        thing = self._object(verb.objects, verb, verb.case)
        if verb.frame == "give":
            receiver = self._object(PEOPLE, verb, "dat", "to+")
            return Phrase(thing.source + receiver.source, receiver.target + thing.target)
        if verb.frame == "put":
            return thing + self._choose(SURFACES)
        return thing + place

    def _clause(
        self,
        verb: Verb,
        subject: Phrase,
        plural: bool,
        complement: Phrase,
        mood: str,
    ) -> Clause:
        """The clause with the verb in a mood: present without a helper, or one of `HELPERS`."""
        person = 0 if plural else 1
        if not mood:
            finite = verb.target[person]
            return Clause(
                subject,
                verb=[verb.source[person]],
                finite=finite,
                tail=[verb.prefix] if verb.prefix else [],
                verb_cluster=[verb.prefix + finite],
                complement=complement,
            )
        forms = mood.split()
        source_helper = forms[person]
        target_helper = forms[2 + person]
        perfect = mood == HELPERS[0]
        source_verb = verb.source[2] if perfect else verb.source[0]
        target_verb = verb.target[2] if perfect else verb.prefix + verb.target[0]
        return Clause(
            subject,
            verb=[source_helper, source_verb],
            finite=target_helper,
            tail=[target_verb],
            verb_cluster=[target_verb, target_helper],
            complement=complement,
        )

    def _simple(
        self,
        verbs: Sequence[Verb],
        moods: Sequence[str] = MOODS,
        bare: bool = False,
    ) -> Clause:
        """A clause with one of these verbs.

        A bare clause has no complement: the relative pronoun before it is the object.
        """
        verb = self._rng.choice(verbs)
        plural = self._chance(PLURAL)
        subject = self._noun_phrase(self._noun(PEOPLE, verb), "nom", plural)
        complement = Phrase() if bare else self._complement(verb)
        mood = self._rng.choice(moods)
        return self._clause(verb, subject, plural, complement, mood)

    def statement(self) -> Phrase:
        """Such as "the man sees the dog"."""
        clause = self._simple(VERBS)
        return Phrase(clause.source, clause.second())

    def question(self) -> Phrase:
        """Such as "can the man see the dog"."""
        clause = self._simple(VERBS, HELPERS)
        helper, *verb = clause.verb
        source = [helper, *clause.subject.source, *verb, *clause.complement.source]
        return Phrase(source, clause.second([]))

    def fronted(self) -> Phrase:
        """Such as "today the man sees the dog"; the target inverts subject and verb."""
        adverb = self._choose(ADVERBS)
        clause = self._simple(VERBS)
        return Phrase(adverb.source + clause.source, clause.second(adverb.target))

    def _joined(self, main_verbs: Sequence[Verb], source: str, target: str) -> Phrase:
        """A main clause, a conjunction in both languages, and a subordinate clause."""
        main = self._simple(main_verbs)
        clause = self._simple(VERBS)
        source_words = [*main.source, source, *clause.source]
        target_words = [*main.second(), ",", target, *clause.final()]
        return Phrase(source_words, target_words)

    def that(self) -> Phrase:
        """Such as "the woman says that the man sees the dog"."""
        return self._joined(SAYING, "that", "dass")

    def because(self) -> Phrase:
        """Such as "the woman laughs because the man sees the dog"."""
        return self._joined(STATES, "because", "weil")

    def condition(self) -> Phrase:
        """Such as "if the woman laughs, the man sees the dog"."""
        clause = self._simple(VERBS + STATES)
        main = self._simple(VERBS + STATES)
        source_words = ["if", *clause.source, ",", *main.source]
        target_words = main.second(["wenn", *clause.final(), ","])
        return Phrase(source_words, target_words)

    def relative(self) -> Phrase:
        """Such as "the man who sees the dog laughs".

        A full clause separates the main verb from the subject that it agrees with.
        """
        plural = self._chance(PLURAL)
        main = self._rng.choice(VERBS + STATES)
        noun = self._noun(PEOPLE, main)
        head = self._noun_phrase(noun, "nom", plural)
        make_modifier = self._whom if self._chance(WHOM) else self._who
        modifier = make_modifier(noun, plural)
        subject = Phrase(head.source + modifier.source, [*head.target, ",", *modifier.target, ","])
        complement = self._complement(main)
        mood = self._rng.choice(MOODS)
        clause = self._clause(main, subject, plural, complement, mood)
        return Phrase(clause.source, clause.second())

    def _who(self, noun: Noun, plural: bool) -> Phrase:
        """A relative clause whose subject is the noun."""
        verb = self._rng.choice(VERBS)
        self.pairs.add((noun.source, verb.source[0]))
        complement = self._complement(verb)
        mood = self._rng.choice(MOODS)
        clause = self._clause(verb, Phrase(), plural, complement, mood)
        pronoun = _pronoun("who", noun, "nom", plural)
        return pronoun + Phrase(clause.source, clause.final())

    def _whom(self, noun: Noun, plural: bool) -> Phrase:
        """A relative clause whose object is the noun."""
        verb = self._rng.choice(KNOWING)
        self.pairs.add((noun.source, verb.source[0]))
        clause = self._simple([verb], bare=True)
        pronoun = _pronoun("whom", noun, verb.case, plural)
        return pronoun + Phrase(clause.source, clause.final())


def _form(forms: str, noun: Noun, plural: bool) -> str:
    """The one of these articles or endings that agrees with the noun."""
    gender = "p" if plural else noun.gender
    return forms.split()[GENDERS.index(gender)]


def _pronoun(source: str, noun: Noun, case: str, plural: bool) -> Phrase:
    """The relative pronoun: in the target the article, except for the dative plural."""
    target = "denen" if plural and case == "dat" else _form(THE[case], noun, plural)
    return _phrase(f"{source} {target}")


SENTENCE_FORMS = (
    *(Grammar.statement, Grammar.question, Grammar.fronted),
    *(Grammar.that, Grammar.because, Grammar.condition, Grammar.relative),
)


def derive(rng: Random) -> tuple[TextPair, set[TextPair]]:
    """One sentence in both languages, and the noun-verb pairs in it.

    The source has at most `MAX_WORDS` words.
    """
    while True:
        grammar = Grammar(rng)
        form = rng.choice(SENTENCE_FORMS)
        phrase = form(grammar)
        if len(phrase.source) <= MAX_WORDS:
            mark = "?" if form is Grammar.question else "."
            text_pair = (_sentence(phrase.source, mark), _sentence(phrase.target, mark))
            return text_pair, grammar.pairs


def _sentence(words: list[str], mark: str) -> str:
    """The words as text that starts with a capital letter and ends with the mark."""
    text = " ".join(words).replace(" ,", ",") + mark
    return text[0].upper() + text[1:]


PARAMETERS: dict[str, Any] = {
    "version": 1,  # increase it with every change of words, rules or rates
    "seed": 1,
    "held_out": 0.1,
    "max_words": MAX_WORDS,
    "sizes": {"train": 12_000, "dev": 400, "test": 400},
}
"""Everything that determines the text; it is part of the data fingerprint.

``sizes`` are the sentence pairs of each split.
"""


def held_out() -> frozenset[TextPair]:
    """The (noun, verb) pairs, as source words, that training never shows in any role."""
    pairs: set[TextPair] = set()
    for verb in VERBS + STATES + SAYING:
        pairs |= {(noun.source, verb.source[0]) for noun in PEOPLE + verb.objects}
    size = round(PARAMETERS["held_out"] * len(pairs))
    rng = Random(f"{PARAMETERS['seed']}/held out")
    return frozenset(rng.sample(sorted(pairs), size))


def generate() -> dict[str, list[TextPair]]:
    """(source, target) sentences of `train`, `dev` and `test`; the same on every machine.

    Splits share no source. Test is drawn first, so that it does not change with the other sizes.
    """
    held_out_pairs = held_out()
    sources = set[str]()
    test = _split("test", held_out_pairs, sources)
    dev = _split("dev", held_out_pairs, sources)
    train = _split("train", held_out_pairs, sources)
    return {"train": train, "dev": dev, "test": test}


def _split(
    split: str,
    held_out_pairs: frozenset[TextPair],
    sources: set[str],
) -> list[TextPair]:
    """The sentences of a split; adds their sources to ``sources``, and repeats none of them.

    Every second dev and test sentence contains a held-out pair, so that you can compare the halves.
    """
    sentences: list[TextPair] = []
    rng = Random(f"{PARAMETERS['seed']}/{split}")
    while len(sentences) < PARAMETERS["sizes"][split]:
        sentence, pairs = derive(rng)
        source, _ = sentence
        has_held_out_pair = not pairs.isdisjoint(held_out_pairs)
        needs_held_out_pair = split != "train" and len(sentences) % 2 == 0
        if has_held_out_pair == needs_held_out_pair and source not in sources:
            sources.add(source)
            sentences.append(sentence)
    return sentences
