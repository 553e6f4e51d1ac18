"""A picture of a sentence in a model: what its heads read, in each format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from transformer.decoding.translator import Translator
from transformer.pictures.choice import TITLES, Choice, Kind
from transformer.pictures.columns import draw_columns
from transformer.pictures.heat_maps import draw_heat_maps
from transformer.pictures.page import Heading, page
from transformer.pictures.paper_files import paper_file
from transformer.pictures.reading import Pair, Reading
from transformer.pictures.sentence import read_pair, readings
from transformer.pictures.sketch import Sketch
from transformer.pictures.svg import svg
from transformer.pictures.words import position_of


@dataclass(frozen=True)
class Picture:
    """What the chosen heads read, for all queries or ``only`` some.

    A page shows every kind of attention in ``readings``; other files show the chosen one.
    """

    sentence: str
    pair: Pair
    readings: Mapping[Kind, Reading]
    choice: Choice
    by_piece: bool = False
    only: Sequence[int] = ()

    def title(self, ending: str, as_grid: bool) -> str:
        """Of the file with this ending: such as "Encoder self-attention, layer 2 of 3"."""
        if ending == ".html":
            return "; ".join(TITLES[kind] for kind in self.readings)
        if as_grid:
            return f"{TITLES[self.choice.kind]}, all layers and heads"
        return self.choice.title(len(self.readings[self.choice.kind].weights_LHQK))

    def of_one_kind(self) -> "Picture":
        """The same picture without the kinds that are not chosen."""
        kind = self.choice.kind
        return replace(self, readings={kind: self.readings[kind]})

    def content(self, ending: str, about: str = "", as_grid: bool = False) -> bytes:
        """A file with this ending: the columns of words, or the grid of all heat maps.

        A page has both, and says what it is ``about``.
        """
        if ending == ".html":
            heading = Heading(about, self.sentence, self.pair, self.by_piece)
            return page(heading, self.readings, self.choice, self.only).encode()
        sketch = self._sketch(as_grid)
        if ending == ".svg":
            return svg(sketch).encode()
        return paper_file(sketch, ending.removeprefix("."))

    def _sketch(self, as_grid: bool) -> Sketch:
        reading = self.readings[self.choice.kind]
        if as_grid:
            return draw_heat_maps(reading, self.choice.kind)
        return draw_columns(reading, self.choice, self.only)


def read_picture(
    translator: Translator,
    choice: Choice,
    sentence: str,
    target: str | None = None,
    by_piece: bool = False,
    word_names: Sequence[str] = (),
) -> Picture:
    """The picture of a sentence with this target, or with the model's own translation.

    ``word_names`` are the queries to draw; all if there are none. Raises FaultyError,
    NotFiniteError.
    """
    pair = read_pair(translator, sentence, target)
    by_kind = readings(translator, pair, by_piece)
    queries = by_kind[choice.kind].queries
    only = [position_of(queries, name) for name in word_names]
    return Picture(sentence, pair, by_kind, choice, by_piece, only)
