"""The pieces of a text that a picture can show."""

from collections.abc import Iterator

from transformer.config import TrialConfig
from transformer.data.vocabulary import Vocabulary
from transformer.faults import Fault, FaultyError

PICTURED = "train.pictured_sentence"


def pieces_of(vocabulary: Vocabulary, key: str, text: str, longest: int) -> list[int]:
    """The pieces of the text on one line, with end-of-sentence.

    Raises FaultyError if there are none, more than ``longest``, or the text is not UTF-8; ``key`` names the text.
    """
    line = " ".join(text.splitlines()).strip()
    try:
        line.encode()
    except UnicodeEncodeError:  # the shell passed bytes that are no letters
        raise FaultyError(Fault(key, "has bytes that are not UTF-8", "must be text")) from None
    (pieces,) = vocabulary.encode([line])
    if len(pieces) == 1:
        raise FaultyError(Fault(key, "is empty", "must be a sentence"))
    if len(pieces) > longest:
        problem = f"has {len(pieces)} pieces, with end-of-sentence"
        allowed = f"must have at most {longest}, as model.max_positions"
        raise FaultyError(Fault(key, problem, allowed))
    return pieces


def pictured_faults(vocabulary: Vocabulary, config: TrialConfig) -> Iterator[Fault]:
    """The fault of a sentence that cannot be drawn when training ends."""
    sentence = config.train.pictured_sentence
    if sentence is None:
        return
    try:
        pieces_of(vocabulary, PICTURED, sentence, config.model.max_positions)
    except FaultyError as error:
        yield from error.faults
