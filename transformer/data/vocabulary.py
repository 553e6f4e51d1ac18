"""One joint SentencePiece vocabulary for both languages."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from transformer.faults import Fault, FaultyError

PAD, UNK, BOS, EOS = 0, 1, 2, 3

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
"""SentencePiece's options for every vocabulary. They are part of the data fingerprint."""

SAMPLED_ABOVE = 1 << 27
"""Bytes of training text, both sides. From more text, only every n-th pair is used for learning."""

REFUSED = 3  # exit code
IN_A_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
    "from transformer.data import vocabulary; sys.exit(vocabulary.learn(int(sys.argv[2])))"
)


class Vocabulary:
    """Converts text to pieces and back."""

    def __init__(self, path: Path) -> None:
        import sentencepiece  # here, since plans need only the ids above

        self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def texts(self) -> list[str]:
        """The text of each piece, in the order of their ids."""
        return [self._processor.id_to_piece(i) for i in range(len(self))]

    def pieces(self, ids: list[int]) -> list[str]:
        """The text of each of these pieces. Its first letter is ▁ if a space precedes it."""
        return [self._processor.id_to_piece(i) for i in ids]

    def encode(self, lines: list[str]) -> list[list[int]]:
        """Piece ids of each line, ending with end-of-sentence."""
        encoded: list[list[int]] = self._processor.encode(lines, add_eos=True)
        return encoded

    def decode(self, pieces: list[list[int]]) -> list[str]:
        """The text of each list of piece ids; control pieces are dropped."""
        decoded: list[str] = self._processor.decode(pieces)
        return decoded


def build(lines: Iterable[str], vocab_size: int, folder: Path) -> bytes:
    """The bytes of a SentencePiece model trained on ``lines``.

    A child process trains it, since SentencePiece cannot be interrupted and does not return its
    memory. It reads the lines from an unnamed file in ``folder``. Raises FaultyError if the text
    does not support that many pieces, and RuntimeError if the child process fails.
    """
    with TemporaryFile(dir=folder) as text:
        text.writelines(f"{line}\n".encode() for line in lines)
        text.seek(0)
        command = [sys.executable, "-c", IN_A_CHILD, json.dumps(sys.path), str(vocab_size)]
        child = subprocess.run(command, stdin=text, capture_output=True)
    if child.returncode:
        message = child.stderr.decode("utf-8", "replace").strip()
        raise _failure(vocab_size, child.returncode, message)
    return child.stdout


def learn(vocab_size: int) -> int:
    """Train a model on standard input, and write it to standard output; returns the exit code."""
    import sentencepiece

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent also gets the Ctrl-C, and ends us
    lines = (line.removesuffix(b"\n") for line in sys.stdin.buffer)
    out = sys.stdout.buffer
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=out,
            vocab_size=vocab_size,
            minloglevel=2,
            **OPTIONS,
        )
    except (RuntimeError, OSError, TypeError, ValueError) as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


def _failure(vocab_size: int, code: int, message: str) -> Exception:
    """The error behind the child's exit code and SentencePiece's message."""
    if code != REFUSED:
        fault = f"the process that learns the vocabulary ended with code {code}"
        return RuntimeError(f"{fault}: {message or 'no message'}")
    if "sentences_.empty()" in message:
        problem = "has no line that a vocabulary can be learned from"
        allowed = "must have lines of at most 4192 bytes without the character U+2585"
        return FaultyError(Fault("data.train", problem, allowed))
    return FaultyError(_size_fault(vocab_size, message))


def _size_fault(vocab_size: int, message: str) -> Fault:
    """The fault of a size that the text does not support, with the nearest size that it does."""
    problem = f"is {vocab_size}"
    largest = re.search(r"value <= (\d+)", message)
    if largest:
        size = largest[1]
        allowed = f"must be at most {size}, the most that this text supports"
        return Fault("data.vocab_size", problem, allowed, f"data.vocab_size={size}")
    smallest = re.search(r"smaller than required_chars\D*\d+\D+(\d+)", message)
    if smallest:
        size = smallest[1]
        allowed = f"must be at least {size}, the number of bytes and characters of this text"
        return Fault("data.vocab_size", problem, allowed, f"data.vocab_size={size}")
    reason = message.strip().splitlines()[-1]
    return Fault("data.vocab_size", problem, f"must be a size that this text supports ({reason})")
