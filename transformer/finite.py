"""Scores of a model that are not finite numbers: they never become a result, and the error names the sentence."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

FIX = "Take an earlier checkpoint, or train again with a smaller train.lr_factor."


class NotFiniteError(ArithmeticError):
    """A model computed NaN or an infinite score; ``places`` are those of the sentences, counted from 0.

    ``where`` says which sentences these are, such as "dev", and ``item`` what one of them is called.
    """

    def __init__(self, places: Iterable[int], where: str = "", item: str = "sentence") -> None:
        self.places, self.where, self.item = sorted(places), where, item
        super().__init__(self.places, where, item)  # what another process needs to make it again

    def __str__(self) -> str:
        place = f"{self.item} {self.places[0] + 1}"
        named = f"{self.where}, {place}" if self.where else place
        return f"{named}: the model's output is not a finite number. {FIX}"


@contextmanager
def sentences_of(where: str) -> Iterator[None]:
    """Within it, the error says whose sentences it counts, the outermost name first."""
    try:
        yield
    except NotFiniteError as error:
        named = f"{where}, {error.where}" if error.where else where
        raise NotFiniteError(error.places, named, error.item) from error
