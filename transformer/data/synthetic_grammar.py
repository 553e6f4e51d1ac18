"""The rules of the synthetic corpus: one derivation writes both languages at once, so the alignment is known.

They include what a lexicon cannot translate: agreement in case, gender and number, verb-second and
verb-final order, separable prefixes, participles at the end, agreement across a relative clause. A sentence
has at most one subordinate or relative clause, so that a small model learns them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from transformer.data import synthetic_lexicon as lexicon
from transformer.data.synthetic_lexicon import HELPERS, MOODS, PEOPLE, SAYING, STATES, THE, VERBS, Noun, Verb

MAX_WORDS = 15
PLURAL, INDEFINITE, ADJECTIVE, PLACE, WHOM = 0.4, 0.3, 0.2, 0.15, 0.4  # probabilities
Pair = tuple[str, str]
Word = tuple[str, int]  # text and key; equal keys translate each other, key -1 has no counterpart


@dataclass(frozen=True)
class Phrase:
    """The same content in both languages."""

    source: list[Word] = field(default_factory=list)
    target: list[Word] = field(default_factory=list)

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(self.source + other.source, self.target + other.target)


@dataclass(frozen=True)
class Clause:
    """Parts kept apart, because the kind of clause orders them; `last` is the verb-final cluster."""

    subject: Phrase
    verb: list[Word]
    finite: Word
    tail: list[Word]
    last: list[Word]
    rest: Phrase

    @property
    def source(self) -> list[Word]:
        return self.subject.source + self.verb + self.rest.source

    def second(self, front: list[Word] | None = None) -> list[Word]:
        """Finite verb after `front`, or after the subject if nothing is fronted; [] makes a question."""
        subject = self.subject.target
        start = [*subject, self.finite] if front is None else [*front, self.finite, *subject]
        return start + self.rest.target + self.tail

    def final(self) -> list[Word]:
        return self.subject.target + self.rest.target + self.last


@dataclass(frozen=True)
class Derivation:
    """Words without the end mark; `alignment` holds a source index for each target word, -1 for a comma."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[int, ...]
    pairs: frozenset[Pair]
    mark: str

    @property
    def text(self) -> Pair:
        source, target = (" ".join(side).replace(" ,", ",") + self.mark for side in (self.source, self.target))
        return source[0].upper() + source[1:], target[0].upper() + target[1:]


COMMA: Word = (",", -1)


class Grammar:
    """One sentence: `_keys` numbers the translation units, `_used` prevents a noun from occurring twice."""

    def __init__(self, rng: Random) -> None:
        self._rng, self._keys = rng, count()
        self._used: set[Noun] = set()
        self._pairs: set[Pair] = set()

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def _units(self, row: str) -> Phrase:
        """Alternating source and target words; "+" joins source words that share one translation."""
        phrase, words = Phrase(), row.split()
        for sources, target in zip(words[::2], words[1::2], strict=True):
            key = next(self._keys)
            phrase += Phrase([(word, key) for word in sources.split("+")], [(target, key)])
        return phrase

    def _any(self, rows: Sequence[str]) -> Phrase:
        return self._units(self._rng.choice(rows))

    def _noun(self, nouns: Sequence[Noun], *verbs: Verb) -> Noun:
        noun = self._rng.choice([noun for noun in nouns if noun not in self._used])
        self._used.add(noun)
        self._pairs.update((noun.source, verb.source[0]) for verb in verbs)
        return noun

    def _noun_phrase(self, noun: Noun, case: str, plural: bool, before: str = "") -> Phrase:
        indefinite = not plural and self._chance(INDEFINITE)
        which = "mfnp".index("p" if plural else noun.gender)
        article, ending = (lexicon.A, lexicon.AFTER_A) if indefinite else (THE, lexicon.AFTER_THE)
        phrase = self._units(f"{before}{'a' if indefinite else 'the'} {article[case].split()[which]}")
        if self._chance(ADJECTIVE):
            phrase += self._units(self._rng.choice(lexicon.ADJECTIVES) + ending[case].split()[which])
        return phrase + self._units(f"{noun.sources if plural else noun.source} {noun.decline(case, plural)}")

    def _object(self, nouns: Sequence[Noun], verb: Verb, case: str, before: str = "") -> Phrase:
        return self._noun_phrase(self._noun(nouns, verb), case, self._chance(PLURAL), before)

    def _rest(self, verb: Verb) -> Phrase:
        """What follows the verb in the source; the target sets the receiver before the thing given."""
        place = self._any(lexicon.PLACES) if self._chance(PLACE) else Phrase()
        if verb.frame == "none":
            return place
        thing = self._object(verb.objects, verb, verb.case)
        if verb.frame == "give":
            receiver = self._object(PEOPLE, verb, "dat", "to+")
            return Phrase(thing.source + receiver.source, receiver.target + thing.target)
        return thing + (self._any(lexicon.SURFACES) if verb.frame == "put" else place)

    def _clause(self, verb: Verb, subject: Phrase, plural: bool, rest: Phrase, mood: str) -> Clause:
        key, singular = next(self._keys), not plural
        if not mood:
            source, finite = verb.source[singular], verb.target[singular]
            tail = [(verb.prefix, key)] if verb.prefix else []
            return Clause(subject, [(source, key)], (finite, key), tail, [(verb.prefix + finite, key)], rest)
        words = mood.split()
        helper = self._units(f"{words[singular]} {words[2 + singular]}")
        perfect = mood == HELPERS[0]
        tail = [(verb.target[2] if perfect else verb.prefix + verb.target[0], key)]
        source_verb = [*helper.source, (verb.source[2 * perfect], key)]
        return Clause(subject, source_verb, helper.target[0], tail, tail + helper.target, rest)

    def _simple(self, verbs: Sequence[Verb], moods: Sequence[str] = MOODS, bare: bool = False) -> Clause:
        """A full clause; in a bare one, the relative pronoun before it is the object."""
        verb, plural = self._rng.choice(verbs), self._chance(PLURAL)
        subject = self._noun_phrase(self._noun(PEOPLE, verb), "nom", plural)
        rest = Phrase() if bare else self._rest(verb)
        return self._clause(verb, subject, plural, rest, self._rng.choice(moods))

    def statement(self) -> Phrase:
        clause = self._simple(VERBS)
        return Phrase(clause.source, clause.second())

    def question(self) -> Phrase:
        clause = self._simple(VERBS, HELPERS)
        source = [clause.verb[0], *clause.subject.source, *clause.verb[1:], *clause.rest.source]
        return Phrase(source, clause.second([]))

    def fronted(self) -> Phrase:
        adverb, clause = self._any(lexicon.ADVERBS), self._simple(VERBS)
        return Phrase(adverb.source + clause.source, clause.second(adverb.target))

    def _joined(self, main: Clause, link: Phrase, clause: Clause) -> Phrase:
        target = [*main.second(), COMMA, *link.target, *clause.final()]
        return Phrase(main.source + link.source + clause.source, target)

    def that(self) -> Phrase:
        return self._joined(self._simple(SAYING), self._units("that dass"), self._simple(VERBS))

    def because(self) -> Phrase:
        return self._joined(self._simple(STATES), self._units("because weil"), self._simple(VERBS))

    def condition(self) -> Phrase:
        link, clause, main = (
            self._units("if wenn"),
            self._simple(VERBS + STATES),
            self._simple(VERBS + STATES),
        )
        front = [*link.target, *clause.final(), COMMA]
        return Phrase([*link.source, *clause.source, COMMA, *main.source], main.second(front))

    def relative(self) -> Phrase:
        """The main verb agrees with a subject separated from it by a full clause."""
        plural, main = self._chance(PLURAL), self._rng.choice(VERBS + STATES)
        noun = self._noun(PEOPLE, main)
        head = self._noun_phrase(noun, "nom", plural)
        modifier = (self._whom if self._chance(WHOM) else self._who)(noun, plural)
        subject = Phrase(head.source + modifier.source, [*head.target, COMMA, *modifier.target, COMMA])
        clause = self._clause(main, subject, plural, self._rest(main), self._rng.choice(MOODS))
        return Phrase(clause.source, clause.second())

    def _who(self, noun: Noun, plural: bool) -> Phrase:
        verb = self._rng.choice(VERBS)
        self._pairs.add((noun.source, verb.source[0]))
        clause = self._clause(verb, Phrase(), plural, self._rest(verb), self._rng.choice(MOODS))
        return self._pronoun("who", noun, "nom", plural) + Phrase(clause.source, clause.final())

    def _whom(self, noun: Noun, plural: bool) -> Phrase:
        verb = self._rng.choice(lexicon.KNOWING)
        self._pairs.add((noun.source, verb.source[0]))
        clause = self._simple([verb], bare=True)
        return self._pronoun("whom", noun, verb.case, plural) + Phrase(clause.source, clause.final())

    def _pronoun(self, source: str, noun: Noun, case: str, plural: bool) -> Phrase:
        article = THE[case].split()["mfnp".index("p" if plural else noun.gender)]
        return self._units(f"{source} {'denen' if plural and case == 'dat' else article}")

    def derive(self, template: Callable[["Grammar"], Phrase]) -> Derivation:
        phrase = template(self)
        position = {key: index for index, (_, key) in reversed([*enumerate(phrase.source)])} | {-1: -1}
        source, target = (tuple(word for word, _ in side) for side in (phrase.source, phrase.target))
        alignment = tuple(position[key] for _, key in phrase.target)
        mark = "?" if template is Grammar.question else "."
        return Derivation(source, target, alignment, frozenset(self._pairs), mark)


CLAUSES = (Grammar.statement, Grammar.question, Grammar.fronted)
TEMPLATES = (*CLAUSES, Grammar.that, Grammar.because, Grammar.condition, Grammar.relative)


def derive(rng: Random) -> Derivation:
    """One sentence of at most `MAX_WORDS` source words."""
    while True:
        derivation = Grammar(rng).derive(rng.choice(TEMPLATES))
        if len(derivation.source) <= MAX_WORDS:
            return derivation
