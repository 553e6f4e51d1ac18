"""One joint SentencePiece vocabulary for both languages."""

import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sentencepiece

from transformer.data.pieces import BOS, EOS, PAD, UNK
from transformer.schema import Problem, RefusedError

OPTIONS: dict[str, Any] = {
    "model_type": "bpe",
    "character_coverage": 0.9995,
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "pad_id": PAD,
    "unk_id": UNK,
    "bos_id": BOS,
    "eos_id": EOS,
}


class Vocabulary:
    """Converts text to pieces and back."""

    def __init__(self, path: Path) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def texts(self) -> list[str]:
        """The text of each piece, in the order of their ids."""
        return [self._processor.id_to_piece(i) for i in range(len(self))]

    def encode(self, lines: list[str]) -> list[list[int]]:
        """Piece ids of each line, ending with end-of-sentence."""
        encoded: list[list[int]] = self._processor.encode(lines, add_eos=True)
        return encoded

    def decode(self, pieces: list[list[int]]) -> list[str]:
        """The text of each list of piece ids; control pieces are dropped."""
        decoded: list[str] = self._processor.decode(pieces)
        return decoded


def build(lines: Iterable[str], vocab_size: int) -> bytes:
    """A trained SentencePiece model; refused if the text does not support that many pieces."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, vocab_size=vocab_size, minloglevel=2, **OPTIONS
        )
    except RuntimeError as error:
        raise RefusedError([_too_large(vocab_size, str(error))]) from error
    return model.getvalue()


def _too_large(vocab_size: int, message: str) -> Problem:
    limit = re.search(r"value <= (\d+)", message)
    smallest = re.search(r"smaller than required_chars\D*\d+\D+(\d+)", message)
    if limit:
        allowed = f"must be at most {limit[1]}, the most that this text supports"
    elif smallest:
        allowed = f"must be at least {smallest[1]}, the number of bytes and characters of this text"
    else:
        allowed = f"must be a size that this text supports ({message.strip().splitlines()[-1]})"
    return Problem("data.vocab_size", f"is {vocab_size}", allowed)
