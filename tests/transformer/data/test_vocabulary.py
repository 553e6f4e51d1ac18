"""Text to pieces and back, and the vocabulary sizes that a text supports."""

from itertools import chain

import pytest

from transformer.data import vocabulary
from transformer.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

TEXT = [
    "the old man sees the small dog",
    "der alte Mann sieht den kleinen Hund",
    "Größe, Übung, ähnlich: schön!",
] * 5


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocabulary.model").write_bytes(vocabulary.build(iter(TEXT), 330, folder))
    return Vocabulary(folder / "vocabulary.model")


def test_any_text_survives_encoding_and_decoding_unseen_characters_by_their_bytes(
    small: Vocabulary,
) -> None:
    odd = [
        "Füße über Äpfeln",
        "a 😀 and a 👩‍👩‍👧 smile",
        "日本語 и русский",
        "e\u0301 is not é",
        "ﬁne ½ ２",
        "zero\u200bwidth",
    ]
    pieces = small.encode([*TEXT, *odd])
    assert small.decode(pieces) == [*TEXT, *odd]  # nothing is normalized
    assert UNK not in chain(*pieces)


def test_control_pieces_have_the_first_four_ids_end_each_line_and_are_dropped_from_text(
    small: Vocabulary,
) -> None:
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    pieces, nothing = small.encode(["the dog", ""])
    assert (pieces[-1], nothing) == (EOS, [EOS])
    assert not {PAD, UNK, BOS, EOS} & set(pieces[:-1])
    assert small.decode([[BOS, *pieces, PAD, PAD], [EOS], []]) == ["the dog", "", ""]
