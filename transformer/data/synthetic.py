"""A parallel corpus from a synchronous grammar, English-like to German-like, for machines without a network.

A tenth of the noun-verb pairs never occurs in training and half of the dev and test sentences contain one
of them: a model that only memorizes sentences fails there. Every source has one translation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any


@dataclass(frozen=True)
class Noun:
    """`oblique` is the singular outside the nominative if it differs (der Junge, den Jungen)."""

    source: str
    sources: str
    gender: str
    target: str
    targets: str
    oblique: str = ""

    def decline(self, case: str, plural: bool) -> str:
        if plural:
            return self.targets + "n" * (case == "dat" and self.targets[-1] not in "ns")
        return self.oblique if self.oblique and case != "nom" else self.target


@dataclass(frozen=True)
class Verb:
    """Base or plural, third person and participle; in the target only the participle has the prefix."""

    source: Sequence[str]
    target: Sequence[str]
    prefix: str
    objects: tuple[Noun, ...]
    case: str
    frame: str


def _nouns(table: str) -> tuple[Noun, ...]:
    return tuple(Noun(*row.split()) for row in table.split(","))


def _verb(row: str, objects: tuple[Noun, ...] = (), case: str = "acc", frame: str = "object") -> Verb:
    base, third, participle, target, *others = row.split()
    prefix, _, infinitive = target.rpartition("-")
    return Verb((base, third, participle), (infinitive, *others), prefix, objects, case, frame)


PEOPLE = _nouns("man men m Mann Männer, woman women f Frau Frauen, child children n Kind Kinder")
PEOPLE += _nouns("boy boys m Junge Jungen Jungen, girl girls n Mädchen Mädchen, dog dogs m Hund Hunde")
PEOPLE += _nouns("teacher teachers m Lehrer Lehrer, cat cats f Katze Katzen")
UPRIGHT = _nouns("cup cups f Tasse Tassen, bottle bottles f Flasche Flaschen")
FLAT = _nouns("ball balls m Ball Bälle, picture pictures n Bild Bilder, key keys m Schlüssel Schlüssel")
SHUT = _nouns("book books n Buch Bücher, letter letters m Brief Briefe")
FIXTURES = _nouns("door doors f Tür Türen, window windows n Fenster Fenster")
THINGS = UPRIGHT + FLAT + SHUT
NOUNS = PEOPLE + THINGS + FIXTURES
LOCATIONS = ("in+the im garden Garten", "in+the im house Haus", "in in the der kitchen Küche")
SURFACES = ("on auf the den table Tisch", "on auf the die bench Bank", "on auf the das bed Bett")
VERBS = (
    _verb("see sees seen sehen sieht gesehen", NOUNS),
    _verb("find finds found finden findet gefunden", NOUNS),
    _verb("watch watches watched an-sehen sieht angesehen", NOUNS),
    _verb("know knows known kennen kennt gekannt", PEOPLE),
    _verb("call calls called an-rufen ruft angerufen", PEOPLE),
    _verb("invite invites invited ein-laden lädt eingeladen", PEOPLE),
    _verb("help helps helped helfen hilft geholfen", PEOPLE, case="dat"),
    _verb("thank thanks thanked danken dankt gedankt", PEOPLE, case="dat"),
    _verb("buy buys bought kaufen kauft gekauft", THINGS),
    _verb("lift lifts lifted auf-heben hebt aufgehoben", THINGS),
    _verb("open opens opened auf-machen macht aufgemacht", SHUT + FIXTURES),
    _verb("close closes closed zu-machen macht zugemacht", SHUT + FIXTURES),
    _verb("give gives given geben gibt gegeben", THINGS, frame="give"),
    _verb("show shows shown zeigen zeigt gezeigt", THINGS + FIXTURES, frame="give"),
    _verb("put puts put legen legt gelegt", FLAT + SHUT, frame="put"),
    _verb("put puts put stellen stellt gestellt", UPRIGHT, frame="put"),
)
STATES = (
    _verb("laugh laughs laughed lachen lacht gelacht", frame="none"),
    _verb("sleep sleeps slept schlafen schläft geschlafen", frame="none"),
)
SAYING = (
    _verb("know knows known wissen weiß gewusst", frame="none"),
    _verb("believe believes believed glauben glaubt geglaubt", frame="none"),
    _verb("say says said sagen sagt gesagt", frame="none"),
)
KNOWING = tuple(verb for verb in VERBS if verb.objects in (NOUNS, PEOPLE))
HELPERS = ("have has haben hat", "can can können kann", "must must müssen muss", "will will werden wird")
MOODS = ("", "", HELPERS[0], *HELPERS)  # no helper: present
ADJECTIVES = ("small klein", "big groß", "new neu", "good gut", "pretty schön")
ADVERBS = ("today heute", "now jetzt", "often oft", "sometimes manchmal")
THE = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"}  # in the order of mfnp
A = {"nom": "ein eine ein", "acc": "einen eine ein", "dat": "einem einer einem"}
AFTER_THE = {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"}  # endings of an adjective
AFTER_A = {"nom": "er e es", "acc": "en e es", "dat": "en en en"}


MAX_WORDS = 15
PLURAL, INDEFINITE, ADJECTIVE, WITH_PLACE, WHOM = 0.4, 0.3, 0.2, 0.15, 0.4  # probabilities
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
    """Parts kept apart, because the kind of clause orders them; `last` is the verb-final cluster."""

    subject: Phrase
    verb: list[str]
    finite: str
    tail: list[str]
    last: list[str]
    rest: Phrase

    @property
    def source(self) -> list[str]:
        return self.subject.source + self.verb + self.rest.source

    def second(self, front: list[str] | None = None) -> list[str]:
        """Finite verb after `front`, or after the subject if nothing is fronted; [] makes a question."""
        subject = self.subject.target
        start = [*subject, self.finite] if front is None else [*front, self.finite, *subject]
        return start + self.rest.target + self.tail

    def final(self) -> list[str]:
        return self.subject.target + self.rest.target + self.last


def _units(row: str) -> Phrase:
    """Alternating source and target words; "+" joins source words that share one translation."""
    words = row.split()
    return Phrase([word for sources in words[::2] for word in sources.split("+")], words[1::2])


class Grammar:
    """One sentence, and the noun-verb `pairs` in it: `_used` prevents a noun from occurring twice."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._used: set[Noun] = set()
        self.pairs: set[TextPair] = set()

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def _any(self, rows: Sequence[str]) -> Phrase:
        return _units(self._rng.choice(rows))

    def _noun(self, nouns: Sequence[Noun], verb: Verb) -> Noun:
        noun = self._rng.choice([noun for noun in nouns if noun not in self._used])
        self._used.add(noun)
        self.pairs.add((noun.source, verb.source[0]))
        return noun

    def _noun_phrase(self, noun: Noun, case: str, plural: bool, before: str = "") -> Phrase:
        indefinite = not plural and self._chance(INDEFINITE)
        which = "mfnp".index("p" if plural else noun.gender)
        article, ending = (A, AFTER_A) if indefinite else (THE, AFTER_THE)
        phrase = _units(f"{before}{'a' if indefinite else 'the'} {article[case].split()[which]}")
        if self._chance(ADJECTIVE):
            phrase += _units(self._rng.choice(ADJECTIVES) + ending[case].split()[which])
        return phrase + _units(f"{noun.sources if plural else noun.source} {noun.decline(case, plural)}")

    def _object(self, nouns: Sequence[Noun], verb: Verb, case: str, before: str = "") -> Phrase:
        return self._noun_phrase(self._noun(nouns, verb), case, self._chance(PLURAL), before)

    def _rest(self, verb: Verb) -> Phrase:
        """What follows the verb in the source; the target sets the receiver before the thing given."""
        place = self._any(LOCATIONS) if self._chance(WITH_PLACE) else Phrase()
        if verb.frame == "none":
            return place
        thing = self._object(verb.objects, verb, verb.case)
        if verb.frame == "give":
            receiver = self._object(PEOPLE, verb, "dat", "to+")
            return Phrase(thing.source + receiver.source, receiver.target + thing.target)
        return thing + (self._any(SURFACES) if verb.frame == "put" else place)

    def _clause(self, verb: Verb, subject: Phrase, plural: bool, rest: Phrase, mood: str) -> Clause:
        singular = not plural
        if not mood:
            source, finite = verb.source[singular], verb.target[singular]
            tail = [verb.prefix] if verb.prefix else []
            return Clause(subject, [source], finite, tail, [verb.prefix + finite], rest)
        words = mood.split()
        helper = _units(f"{words[singular]} {words[2 + singular]}")
        perfect = mood == HELPERS[0]
        tail = [verb.target[2] if perfect else verb.prefix + verb.target[0]]
        source_verb = [*helper.source, verb.source[2 * perfect]]
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
        adverb, clause = self._any(ADVERBS), self._simple(VERBS)
        return Phrase(adverb.source + clause.source, clause.second(adverb.target))

    def _joined(self, mains: Sequence[Verb], source: str, target: str) -> Phrase:
        main, clause = self._simple(mains), self._simple(VERBS)
        return Phrase([*main.source, source, *clause.source], [*main.second(), ",", target, *clause.final()])

    def that(self) -> Phrase:
        return self._joined(SAYING, "that", "dass")

    def because(self) -> Phrase:
        return self._joined(STATES, "because", "weil")

    def condition(self) -> Phrase:
        clause, main = (self._simple(VERBS + STATES) for _ in range(2))
        return Phrase(["if", *clause.source, ",", *main.source], main.second(["wenn", *clause.final(), ","]))

    def relative(self) -> Phrase:
        """The main verb agrees with a subject separated from it by a full clause."""
        plural, main = self._chance(PLURAL), self._rng.choice(VERBS + STATES)
        noun = self._noun(PEOPLE, main)
        head = self._noun_phrase(noun, "nom", plural)
        modifier = (self._whom if self._chance(WHOM) else self._who)(noun, plural)
        subject = Phrase(head.source + modifier.source, [*head.target, ",", *modifier.target, ","])
        clause = self._clause(main, subject, plural, self._rest(main), self._rng.choice(MOODS))
        return Phrase(clause.source, clause.second())

    def _who(self, noun: Noun, plural: bool) -> Phrase:
        verb = self._rng.choice(VERBS)
        self.pairs.add((noun.source, verb.source[0]))
        clause = self._clause(verb, Phrase(), plural, self._rest(verb), self._rng.choice(MOODS))
        return self._pronoun("who", noun, "nom", plural) + Phrase(clause.source, clause.final())

    def _whom(self, noun: Noun, plural: bool) -> Phrase:
        verb = self._rng.choice(KNOWING)
        self.pairs.add((noun.source, verb.source[0]))
        clause = self._simple([verb], bare=True)
        return self._pronoun("whom", noun, verb.case, plural) + Phrase(clause.source, clause.final())

    def _pronoun(self, source: str, noun: Noun, case: str, plural: bool) -> Phrase:
        article = THE[case].split()["mfnp".index("p" if plural else noun.gender)]
        return _units(f"{source} {'denen' if plural and case == 'dat' else article}")


SENTENCE_FORMS = (
    *(Grammar.statement, Grammar.question, Grammar.fronted),
    *(Grammar.that, Grammar.because, Grammar.condition, Grammar.relative),
)


def derive(rng: Random) -> tuple[TextPair, set[TextPair]]:
    """One sentence of at most `MAX_WORDS` source words in both languages, and the noun-verb pairs in it."""
    while True:
        grammar, form = Grammar(rng), rng.choice(SENTENCE_FORMS)
        phrase, mark = form(grammar), "?" if form is Grammar.question else "."
        if len(phrase.source) <= MAX_WORDS:
            return (_sentence(phrase.source, mark), _sentence(phrase.target, mark)), grammar.pairs


def _sentence(words: list[str], mark: str) -> str:
    text = " ".join(words).replace(" ,", ",") + mark
    return text[0].upper() + text[1:]


PARAMETERS: dict[str, Any] = {
    "version": 1,  # increase it with every change of words, rules or rates
    "seed": 1,
    "held_out": 0.1,
    "max_words": MAX_WORDS,
    "sizes": {"train": 12_000, "dev": 400, "test": 400},
}
"""Everything that determines the text: it is part of the data fingerprint. ``sizes``: sentence pairs of each split."""


def held_out() -> frozenset[TextPair]:
    """The (noun, verb) pairs, as source words, that training never shows in any role."""
    verbs = VERBS + STATES + SAYING
    every = sorted({(noun.source, verb.source[0]) for verb in verbs for noun in PEOPLE + verb.objects})
    return frozenset(Random(f"{PARAMETERS['seed']}/held out").sample(every, round(PARAMETERS["held_out"] * len(every))))


def generate() -> dict[str, list[TextPair]]:
    """(source, target) sentences of `train`, `dev` and `test`; the same on every machine.

    Splits share no source. Test is drawn first, so that it does not change with the other sizes.
    """
    held, taken = held_out(), set[str]()
    drawn = {split: _split(split, held, taken) for split in ("test", "dev", "train")}
    return {split: drawn[split] for split in ("train", "dev", "test")}


def _split(split: str, held: frozenset[TextPair], taken: set[str]) -> list[TextPair]:
    """Every other dev and test sentence contains an unseen pair, so that the two halves can be compared."""
    made: list[TextPair] = []
    rng = Random(f"{PARAMETERS['seed']}/{split}")
    while len(made) < PARAMETERS["sizes"][split]:
        text, pairs = derive(rng)
        unseen = split != "train" and len(made) % 2 == 0
        if bool(pairs & held) == unseen and text[0] not in taken:
            taken.add(text[0])
            made.append(text)
    return made
