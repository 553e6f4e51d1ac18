"""The words of the synthetic corpus: nouns, verbs and their forms in both languages."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """A noun in both languages: singular, plural, and the gender of the target.

    `oblique` is the singular outside the nominative if it differs (der Junge, den Jungen).
    """

    source: str
    sources: str
    gender: str
    target: str
    targets: str
    oblique: str = ""

    def decline(self, case: str, plural: bool) -> str:
        """The target noun in a case: nom, acc or dat."""
        if plural:
            takes_n = case == "dat" and self.targets[-1] not in "ns"
            return f"{self.targets}n" if takes_n else self.targets
        return self.oblique if self.oblique and case != "nom" else self.target


@dataclass(frozen=True)
class Verb:
    """A verb in both languages: base or plural, third person, participle.

    In the target only the participle has the prefix. `case` is the case of an object, and `frame`
    says what follows the verb: "none", "object", "give" (two objects) or "put" (object and place).
    """

    source: Sequence[str]
    target: Sequence[str]
    prefix: str
    objects: tuple[Noun, ...]
    case: str
    frame: str


def _nouns(table: str) -> tuple[Noun, ...]:
    return tuple(Noun(*row.split()) for row in table.split(","))


def _verb(
    row: str,
    objects: tuple[Noun, ...] = (),
    case: str = "acc",
    frame: str = "object",
) -> Verb:
    """A verb from three source forms and three target forms; a hyphen ends the target's prefix."""
    base, third, participle, target_base, target_third, target_participle = row.split()
    prefix, _, infinitive = target_base.rpartition("-")
    source = (base, third, participle)
    target = (infinitive, target_third, target_participle)
    return Verb(source, target, prefix, objects, case, frame)


PEOPLE = _nouns("man men m Mann Männer, woman women f Frau Frauen, child children n Kind Kinder")
PEOPLE += _nouns("boy boys m Junge Jungen Jungen, girl girls n Mädchen Mädchen")
PEOPLE += _nouns("dog dogs m Hund Hunde, teacher teachers m Lehrer Lehrer, cat cats f Katze Katzen")
UPRIGHT = _nouns("cup cups f Tasse Tassen, bottle bottles f Flasche Flaschen")
FLAT = _nouns("ball balls m Ball Bälle, picture pictures n Bild Bilder")
FLAT += _nouns("key keys m Schlüssel Schlüssel")
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
HELPERS = (
    "have has haben hat",
    "can can können kann",
    "must must müssen muss",
    "will will werden wird",
)
MOODS = ("", "", HELPERS[0], *HELPERS)  # no helper: present
ADJECTIVES = ("small klein", "big groß", "new neu", "good gut", "pretty schön")
ADVERBS = ("today heute", "now jetzt", "often oft", "sometimes manchmal")
GENDERS = "mfnp"
"""The order of the articles and endings below: masculine, feminine, neuter, plural."""
THE = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"}
A = {"nom": "ein eine ein", "acc": "einen eine ein", "dat": "einem einer einem"}
AFTER_THE = {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"}  # endings of an adjective
AFTER_A = {"nom": "er e es", "acc": "en e es", "dat": "en en en"}
