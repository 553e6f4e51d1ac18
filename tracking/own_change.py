"""Whether a row's own words for its change say more than its changed cells."""

import re
from collections.abc import Mapping

from tracking.card import Card

WORD = re.compile(r"[^\s,;:=()]+")


def own_change(card: Card, shown: str, recorded: str, cells: Mapping[str, object]) -> str:
    """``shown`` if it is the row's recorded words and holds anything besides cells in their symbols; otherwise ""."""
    phrases = [
        card.change_phrases[name].replace("{value}", str(of))
        for name, of in cells.items()
        if name in card.change_phrases
    ]
    if " ".join(recorded.split()) != shown or (len(phrases) == len(cells) and all(each in shown for each in phrases)):
        return ""
    derived = {*cells, *(card.symbols.get(name, name) for name in cells), *map(str, cells.values())}
    derived |= {word for phrase in phrases for word in WORD.findall(phrase)}
    return "" if set(WORD.findall(shown)) <= derived else shown
