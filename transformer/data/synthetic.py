"""A parallel corpus from a synchronous grammar, English-like to German-like, for machines without a network.

One derivation writes both languages at once, so every source has one translation and the word alignment is known. The grammar
keeps what makes translation more than a lexicon: case, gender and number agreement, verb-second and verb-final order, separable
prefixes, participles at the end, and agreement across a relative clause. The lexicon is small so that a small model learns it.
A tenth of the noun-verb pairs never occurs in training; half of the dev and test sentences hold one of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from random import Random

VERSION = 1  # raise it with every change that alters the text: it is part of the data fingerprint
SEED = 1
HELD_OUT = 0.1
MAX_WORDS = 16
Pair = tuple[str, str]
Word = tuple[str, int]  # text and key; words with one key translate each other, key -1 has no counterpart


@dataclass(frozen=True)
class Sizes:
    """Sentence pairs in each split."""

    train: int = 12_000
    dev: int = 400
    test: int = 400


@dataclass(frozen=True)
class Noun:
    """`oblique` is the singular outside the nominative where it differs (der Junge, den Jungen)."""

    source: str
    sources: str
    gender: str
    target: str
    targets: str
    oblique: str = ""

    def decline(self, case: str, plural: bool) -> str:
        if plural:
            return self.targets + ("n" if case == "dat" and self.targets[-1] not in "ns" else "")
        return self.oblique if self.oblique and case != "nom" else self.target


@dataclass(frozen=True)
class Verb:
    """Source base, third person and participle; the same for the target, without prefix save in the participle."""

    source: tuple[str, str, str]
    target: tuple[str, str, str]
    objects: tuple[Noun, ...] = ()
    prefix: str = ""
    case: str = "acc"
    frame: str = "object"


@dataclass(frozen=True)
class Phrase:
    """The same content in both languages."""

    source: list[Word] = field(default_factory=list)
    target: list[Word] = field(default_factory=list)

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(self.source + other.source, self.target + other.target)


@dataclass(frozen=True)
class Clause:
    """Parts kept apart, because the target orders them by the kind of clause; `last` is the verb-final cluster."""

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
        """Main clause: the finite verb follows `front`, or the subject where nothing is fronted; [] makes a question."""
        if front is None:
            return [*self.subject.target, self.finite, *self.rest.target, *self.tail]
        return [*front, self.finite, *self.subject.target, *self.rest.target, *self.tail]

    def final(self) -> list[Word]:
        """Subordinate clause: every verb at the end."""
        return self.subject.target + self.rest.target + self.last


@dataclass(frozen=True)
class Derivation:
    """Words without end mark; `alignment` holds a source index for each target word, -1 for a comma."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[int, ...]
    pairs: frozenset[Pair]
    mark: str

    @property
    def text(self) -> Pair:
        return _sentence(self.source, self.mark), _sentence(self.target, self.mark)


PEOPLE = (
    Noun("man", "men", "m", "Mann", "Männer"),
    Noun("woman", "women", "f", "Frau", "Frauen"),
    Noun("child", "children", "n", "Kind", "Kinder"),
    Noun("boy", "boys", "m", "Junge", "Jungen", "Jungen"),
    Noun("girl", "girls", "n", "Mädchen", "Mädchen"),
    Noun("teacher", "teachers", "m", "Lehrer", "Lehrer"),
    Noun("dog", "dogs", "m", "Hund", "Hunde"),
    Noun("cat", "cats", "f", "Katze", "Katzen"),
)
UPRIGHT = (Noun("cup", "cups", "f", "Tasse", "Tassen"), Noun("bottle", "bottles", "f", "Flasche", "Flaschen"))
FLAT = (
    Noun("ball", "balls", "m", "Ball", "Bälle"),
    Noun("book", "books", "n", "Buch", "Bücher"),
    Noun("letter", "letters", "m", "Brief", "Briefe"),
    Noun("picture", "pictures", "n", "Bild", "Bilder"),
    Noun("key", "keys", "m", "Schlüssel", "Schlüssel"),
)
FIXED = (Noun("door", "doors", "f", "Tür", "Türen"), Noun("window", "windows", "n", "Fenster", "Fenster"))
SURFACES = (("the", "den", "table", "Tisch"), ("the", "die", "bench", "Bank"), ("the", "das", "bed", "Bett"))
PLACES = (("in the", "im", "garden", "Garten"), ("in the", "im", "house", "Haus"), ("in", "in", "the", "der", "kitchen", "Küche"))
THINGS = UPRIGHT + FLAT
ALL = PEOPLE + THINGS + FIXED
OPENED = (*FIXED, UPRIGHT[1], FLAT[1], FLAT[2])

VERBS = (
    Verb(("see", "sees", "seen"), ("sehen", "sieht", "gesehen"), ALL),
    Verb(("find", "finds", "found"), ("finden", "findet", "gefunden"), ALL),
    Verb(("know", "knows", "known"), ("kennen", "kennt", "gekannt"), PEOPLE),
    Verb(("buy", "buys", "bought"), ("kaufen", "kauft", "gekauft"), THINGS),
    Verb(("help", "helps", "helped"), ("helfen", "hilft", "geholfen"), PEOPLE, case="dat"),
    Verb(("thank", "thanks", "thanked"), ("danken", "dankt", "gedankt"), PEOPLE, case="dat"),
    Verb(("call", "calls", "called"), ("rufen", "ruft", "angerufen"), PEOPLE, prefix="an"),
    Verb(("watch", "watches", "watched"), ("sehen", "sieht", "angesehen"), ALL, prefix="an"),
    Verb(("invite", "invites", "invited"), ("laden", "lädt", "eingeladen"), PEOPLE, prefix="ein"),
    Verb(("lift", "lifts", "lifted"), ("heben", "hebt", "aufgehoben"), THINGS, prefix="auf"),
    Verb(("open", "opens", "opened"), ("machen", "macht", "aufgemacht"), OPENED, prefix="auf"),
    Verb(("close", "closes", "closed"), ("machen", "macht", "zugemacht"), OPENED, prefix="zu"),
    Verb(("give", "gives", "given"), ("geben", "gibt", "gegeben"), THINGS, frame="give"),
    Verb(("show", "shows", "shown"), ("zeigen", "zeigt", "gezeigt"), THINGS + FIXED, frame="give"),
    Verb(("put", "puts", "put"), ("legen", "legt", "gelegt"), FLAT, frame="put"),
    Verb(("put", "puts", "put"), ("stellen", "stellt", "gestellt"), UPRIGHT, frame="put"),
)
STATES = (
    Verb(("laugh", "laughs", "laughed"), ("lachen", "lacht", "gelacht"), frame="none"),
    Verb(("sleep", "sleeps", "slept"), ("schlafen", "schläft", "geschlafen"), frame="none"),
)
SAYING = (
    Verb(("know", "knows", "known"), ("wissen", "weiß", "gewusst"), frame="none"),
    Verb(("believe", "believes", "believed"), ("glauben", "glaubt", "geglaubt"), frame="none"),
    Verb(("say", "says", "said"), ("sagen", "sagt", "gesagt"), frame="none"),
)
WHOM = tuple(verb for verb in VERBS if verb.frame == "object" and verb.objects in (ALL, PEOPLE))
HELPERS = {  # source plural and singular, target plural and singular
    "perfect": ("have", "has", "haben", "hat"),
    "can": ("can", "can", "können", "kann"),
    "must": ("must", "must", "müssen", "muss"),
    "will": ("will", "will", "werden", "wird"),
}
MOODS = ("present", "present", "perfect", "perfect", "can", "must", "will")
ADJECTIVES = (("small", "klein"), ("big", "groß"), ("new", "neu"), ("good", "gut"), ("pretty", "schön"))
ADVERBS = (("today", "heute"), ("now", "jetzt"), ("often", "oft"), ("sometimes", "manchmal"))
DEFINITE = {  # masculine, feminine, neuter, plural
    "nom": dict(zip("mfnp", ("der", "die", "das", "die"), strict=True)),
    "acc": dict(zip("mfnp", ("den", "die", "das", "die"), strict=True)),
    "dat": dict(zip("mfnp", ("dem", "der", "dem", "den"), strict=True)),
}
ENDINGS = {("nom", "m"): ("", "er"), ("nom", "f"): ("e", "e"), ("nom", "n"): ("", "es")}  # after ein: article, adjective
ENDINGS |= {("acc", "m"): ("en", "en"), ("acc", "f"): ("e", "e"), ("acc", "n"): ("", "es")}
ENDINGS |= {("dat", "m"): ("em", "en"), ("dat", "f"): ("er", "en"), ("dat", "n"): ("em", "en")}
COMMA: Word = (",", -1)


def _sentence(words: Sequence[str], mark: str) -> str:
    text = " ".join(words).replace(" ,", ",") + mark
    return text[0].upper() + text[1:]


class Grammar:
    """One sentence at a time: `_keys` number the translation units, `_used` keeps a noun from coming twice."""

    def __init__(self, rng: Random) -> None:
        self._rng, self._keys = rng, count()
        self._used: set[Noun] = set()
        self._pairs: set[Pair] = set()

    def _units(self, *words: str) -> Phrase:
        """Alternating source and target words that translate each other; a source of several words is one unit."""
        phrase = Phrase()
        for source, target, key in zip(words[::2], words[1::2], self._keys, strict=False):
            phrase += Phrase([(word, key) for word in source.split()], [(target, key)])
        return phrase

    def _noun(self, nouns: Sequence[Noun], *verbs: Verb) -> Noun:
        noun = self._rng.choice([noun for noun in nouns if noun not in self._used])
        self._used.add(noun)
        self._pairs.update((noun.source, verb.source[0]) for verb in verbs)
        return noun

    def _plural(self) -> bool:
        return self._rng.random() < 0.4

    def _noun_phrase(self, noun: Noun, case: str, plural: bool, before: str = "") -> Phrase:
        indefinite = not plural and self._rng.random() < 0.3
        article, ending = DEFINITE[case]["p" if plural else noun.gender], "en"
        if indefinite:
            article, ending = ENDINGS[case, noun.gender]
        elif not plural and (case == "nom" or (case == "acc" and noun.gender != "m")):
            ending = "e"
        phrase = self._units(before + ("a" if indefinite else "the"), "ein" * indefinite + article)
        if self._rng.random() < 0.25:
            source, target = self._rng.choice(ADJECTIVES)
            phrase += self._units(source, target + ending)
        return phrase + self._units(noun.sources if plural else noun.source, noun.decline(case, plural))

    def _rest(self, verb: Verb) -> Phrase:
        """What follows the verb in the source; the target sets the receiver before the thing given."""
        place = self._units(*self._rng.choice(PLACES)) if self._rng.random() < 0.25 else Phrase()
        if verb.frame == "none":
            return place
        thing = self._noun_phrase(self._noun(verb.objects, verb), verb.case, self._plural())
        if verb.frame == "give":
            receiver = self._noun_phrase(self._noun(PEOPLE, verb), "dat", self._plural(), "to ")
            return Phrase(thing.source + receiver.source, receiver.target + thing.target)
        if verb.frame == "put":
            return thing + self._units("on", "auf", *self._rng.choice(SURFACES))
        return thing + place

    def _clause(self, verb: Verb, subject: Phrase, plural: bool, rest: Phrase, moods: Sequence[str] = MOODS) -> Clause:
        mood, key = self._rng.choice(moods), next(self._keys)
        if mood == "present":
            finite = (verb.target[not plural], key)
            tail = [(verb.prefix, key)] if verb.prefix else []
            source, last = [(verb.source[not plural], key)], [(verb.prefix + finite[0], key)]
            return Clause(subject, source, finite, tail, last, rest)
        helper = self._units(HELPERS[mood][not plural], HELPERS[mood][2 + (not plural)])
        perfect = mood == "perfect"
        tail = [(verb.target[2] if perfect else verb.prefix + verb.target[0], key)]
        source = [*helper.source, (verb.source[2 if perfect else 0], key)]
        return Clause(subject, source, helper.target[0], tail, tail + helper.target, rest)

    def _simple(self, verbs: Sequence[Verb], moods: Sequence[str] = MOODS) -> Clause:
        verb, plural = self._rng.choice(verbs), self._plural()
        subject = self._noun_phrase(self._noun(PEOPLE, verb), "nom", plural)
        return self._clause(verb, subject, plural, self._rest(verb), moods)

    def statement(self) -> Phrase:
        clause = self._simple(VERBS)
        return Phrase(clause.source, clause.second())

    def question(self) -> Phrase:
        clause = self._simple(VERBS, MOODS[2:])
        source = [clause.verb[0], *clause.subject.source, *clause.verb[1:], *clause.rest.source]
        return Phrase(source, clause.second([]))

    def fronted(self) -> Phrase:
        adverb, clause = self._units(*self._rng.choice(ADVERBS)), self._simple(VERBS)
        return Phrase(adverb.source + clause.source, clause.second(adverb.target))

    def _joined(self, main: Clause, link: Phrase) -> Phrase:
        clause = self._simple(VERBS)
        return Phrase(main.source + link.source + clause.source, [*main.second(), COMMA, *link.target, *clause.final()])

    def that(self) -> Phrase:
        return self._joined(self._simple(SAYING), self._units("that", "dass"))

    def because(self) -> Phrase:
        return self._joined(self._simple(STATES), self._units("because", "weil"))

    def condition(self) -> Phrase:
        link, clause, main = self._units("if", "wenn"), self._simple(VERBS + STATES), self._simple(VERBS + STATES)
        front = [*link.target, *clause.final(), COMMA]
        return Phrase([*link.source, *clause.source, COMMA, *main.source], main.second(front))

    def relative(self) -> Phrase:
        """The main verb agrees with a subject that a whole clause separates from it."""
        main, plural, whom = self._rng.choice(VERBS + STATES), self._plural(), self._rng.random() < 0.4
        verb = self._rng.choice(WHOM if whom else VERBS)
        noun = self._noun(PEOPLE, main, verb)
        head, case = self._noun_phrase(noun, "nom", plural), verb.case if whom else "nom"
        article = DEFINITE[case]["p" if plural else noun.gender]
        pronoun = self._units("whom" if whom else "who", "denen" if plural and case == "dat" else article)
        inner = self._whom(verb) if whom else self._clause(verb, Phrase(), plural, self._rest(verb))
        target = [*head.target, COMMA, *pronoun.target, *inner.final(), COMMA]
        subject = Phrase(head.source + pronoun.source + inner.source, target)
        clause = self._clause(main, subject, plural, self._rest(main))
        return Phrase(clause.source, clause.second())

    def _whom(self, verb: Verb) -> Clause:
        plural = self._plural()
        return self._clause(verb, self._noun_phrase(self._noun(PEOPLE, verb), "nom", plural), plural, Phrase())

    def derive(self, template: Callable[["Grammar"], Phrase]) -> Derivation:
        phrase = template(self)
        position: dict[int, int] = {-1: -1}
        for index, (_, key) in enumerate(phrase.source):
            position.setdefault(key, index)
        source, target = (tuple(word for word, _ in side) for side in (phrase.source, phrase.target))
        alignment = tuple(position[key] for _, key in phrase.target)
        return Derivation(source, target, alignment, frozenset(self._pairs), "?" if template is Grammar.question else ".")


TEMPLATES = (Grammar.statement, Grammar.question, Grammar.fronted, Grammar.that, Grammar.because, Grammar.condition, Grammar.relative)


def derive(rng: Random) -> Derivation:
    """One sentence of at most `MAX_WORDS` source words."""
    while True:
        derivation = Grammar(rng).derive(rng.choice(TEMPLATES))
        if len(derivation.source) <= MAX_WORDS:
            return derivation


def held_out(seed: int = SEED) -> frozenset[Pair]:
    """The (noun, verb) pairs, as source words, that training never shows in any role."""
    every = {(noun.source, verb.source[0]) for verb in VERBS + STATES + SAYING for noun in PEOPLE + verb.objects}
    return frozenset(Random(f"{seed}/held out").sample(sorted(every), round(HELD_OUT * len(every))))


def derivations(sizes: Sizes = Sizes(), seed: int = SEED) -> dict[str, list[Derivation]]:
    """Splits are disjoint. Test comes first: the training size then does not change it."""
    held, taken = held_out(seed), set[str]()
    return {split: _split(split, getattr(sizes, split), seed, held, taken) for split in ("test", "dev", "train")}


def _split(split: str, size: int, seed: int, held: frozenset[Pair], taken: set[str]) -> list[Derivation]:
    made: list[Derivation] = []
    for derivation in _endless(Random(f"{seed}/{split}")):
        if len(made) == size:
            break
        unseen = split != "train" and len(made) % 2 == 0
        if bool(derivation.pairs & held) == unseen and derivation.text[0] not in taken:
            taken.add(derivation.text[0])
            made.append(derivation)
    return made


def _endless(rng: Random) -> Iterator[Derivation]:
    while True:
        yield derive(rng)


def generate(sizes: Sizes = Sizes(), seed: int = SEED) -> dict[str, list[Pair]]:
    """(source, target) sentences of `train`, `dev` and `test`; the same on every machine."""
    made = derivations(sizes, seed)
    return {split: [derivation.text for derivation in made[split]] for split in ("train", "dev", "test")}


def parameters() -> dict[str, object]:
    """Everything that decides the default text, for a fingerprint."""
    return {"version": VERSION, "seed": SEED, "held_out": HELD_OUT, "max_words": MAX_WORDS, "sizes": asdict(Sizes())}
