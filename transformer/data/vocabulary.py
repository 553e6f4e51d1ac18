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
"""How SentencePiece learns every vocabulary. They are part of the data fingerprint."""

SAMPLED_ABOVE = 1 << 27
"""Bytes of training text, both sides. The vocabulary is learned from all of it; of more text, from every n-th pair."""

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

    def encode(self, lines: list[str]) -> list[list[int]]:
        """Piece ids of each line, ending with end-of-sentence."""
        encoded: list[list[int]] = self._processor.encode(lines, add_eos=True)
        return encoded

    def decode(self, pieces: list[list[int]]) -> list[str]:
        """The text of each list of piece ids; control pieces are dropped."""
        decoded: list[str] = self._processor.decode(pieces)
        return decoded


def build(lines: Iterable[str], vocab_size: int, folder: Path) -> bytes:
    """A trained SentencePiece model; refused if the text does not support that many pieces.

    It is trained in another process, since SentencePiece cannot be interrupted and does not return its memory. The
    lines wait in an unnamed file in ``folder``.
    """
    with TemporaryFile(dir=folder) as text:
        text.writelines(f"{line}\n".encode() for line in lines)
        text.seek(0)
        command = [sys.executable, "-c", IN_A_CHILD, json.dumps(sys.path), str(vocab_size)]
        done = subprocess.run(command, stdin=text, capture_output=True)
    if done.returncode:
        raise _failure(vocab_size, done.returncode, done.stderr.decode("utf-8", "replace").strip())
    return done.stdout


def learn(vocab_size: int) -> int:
    """Write a model trained on the lines of standard input to standard output; the exit code."""
    import sentencepiece

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process gets the Ctrl-C too, and ends this one
    lines = (line.removesuffix(b"\n") for line in sys.stdin.buffer)
    out = sys.stdout.buffer
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines, model_writer=out, vocab_size=vocab_size, minloglevel=2, **OPTIONS
        )
    except (RuntimeError, OSError, TypeError, ValueError) as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


def _failure(vocab_size: int, code: int, message: str) -> Exception:
    if code != REFUSED:
        return RuntimeError(f"the process that learns the vocabulary ended with code {code}: {message or 'no message'}")
    if "sentences_.empty()" in message:
        found = "has no line that a vocabulary can be learned from"
        allowed = "must have lines of at most 4192 bytes without the character U+2585"
        return FaultyError(Fault("data.train", found, allowed))
    return FaultyError(_size_fault(vocab_size, message))


def _size_fault(vocab_size: int, message: str) -> Fault:
    near, limit = None, re.search(r"value <= (\d+)", message)
    smallest = re.search(r"smaller than required_chars\D*\d+\D+(\d+)", message)
    if limit:
        near, allowed = limit[1], f"must be at most {limit[1]}, the most that this text supports"
    elif smallest:
        near, allowed = smallest[1], f"must be at least {smallest[1]}, the number of bytes and characters of this text"
    else:
        allowed = f"must be a size that this text supports ({message.strip().splitlines()[-1]})"
    return Fault("data.vocab_size", f"is {vocab_size}", allowed, near and f"data.vocab_size={near}")
