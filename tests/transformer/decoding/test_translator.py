"""Lines of text into pieces: what the model's positions cut off."""

from dataclasses import replace
from io import BytesIO, StringIO
from typing import Any

import pytest
from rich.console import Console
from small_trials import DECODE, small_model

from transformer.data.prepared import Prepared
from transformer.data.vocabulary import EOS
from transformer.decoding.translator import Translator
from transformer.verbs.translate import LineStream


@pytest.mark.parametrize(("positions", "limit"), [("sinusoids", 320), ("learned", 40)])
def test_a_very_long_line_is_cut_at_a_limit_that_the_warning_names(
    positions: Any, limit: int, copies: Prepared
) -> None:
    """Attention over all of it might not fit into memory."""
    vocabulary = copies.vocabulary
    model = small_model(len(vocabulary), positions=positions)
    translator = Translator(model, vocabulary, replace(DECODE, beam=1, max_extra=0), "fp32")
    line = "a " * 500
    sources, cut_lines = translator.sources([line])
    assert cut_lines == [0]
    (pieces,) = vocabulary.encode([line])
    assert sources == [[*pieces[: limit - 1], EOS]]
    err = StringIO()
    stream = LineStream(translator, BytesIO(), None, Console(file=err), None, "long.txt")
    assert stream.translate(iter([[line]])) == 0
    warning = f"long.txt: line 1 has more than {limit} pieces; the rest of it is ignored\n"
    assert err.getvalue() == warning


@pytest.mark.parametrize(("positions", "cut"), [("sinusoids", []), ("learned", [1])])
def test_a_line_beyond_learned_positions_is_cut_and_counted(
    positions: Any, cut: list[int], copies: Prepared
) -> None:
    vocabulary = copies.vocabulary
    lines = ["a b", "a " * 60]
    model = small_model(len(vocabulary), positions=positions)
    translator = Translator(model, vocabulary, DECODE, "fp32")
    sources, cut_lines = translator.sources(lines)
    encoded = vocabulary.encode(lines)
    assert len(encoded[1]) > model.config.max_positions
    assert cut_lines == cut
    assert sources[0] == encoded[0]
    assert sources[1] == ([*encoded[1][:39], EOS] if cut else encoded[1])
    assert len(translator.translate(lines)) == 2
