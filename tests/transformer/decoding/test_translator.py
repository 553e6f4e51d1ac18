"""Lines of text into pieces: what the model's positions cut off."""

from typing import Any

import pytest
from small_trials import DECODE, small_model

from transformer.data.prepared import Prepared
from transformer.data.vocabulary import EOS
from transformer.decoding.translator import Translator


@pytest.mark.parametrize(("positions", "cut"), [("sinusoids", []), ("learned", [1])])
def test_a_line_beyond_learned_positions_is_cut_and_counted(
    positions: Any, cut: list[int], copies: Prepared
) -> None:
    vocabulary = copies.vocabulary
    lines = ["a b", "a " * 60]
    model = small_model(len(vocabulary), positions=positions)
    translator = Translator(model, vocabulary, DECODE, "fp32")
    sources, cut_lines = translator.sources(lines)
    whole = vocabulary.encode(lines)
    assert len(whole[1]) > model.config.max_positions
    assert cut_lines == cut
    assert sources[0] == whole[0]
    assert sources[1] == ([*whole[1][:39], EOS] if cut else whole[1])
    assert len(translator.translate(lines)) == 2
