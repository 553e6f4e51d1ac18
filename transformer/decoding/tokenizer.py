"""The models that some of sacreBLEU's tokenizers need: whether they are on this machine; downloaded if they are not."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from transformer.bleu_tokenizer import KEY, package_faults
from transformer.faults import Fault, FaultyError

DOWNLOADED = ("flores101", "flores200", "spBLEU-1K")
"""Those that need a SentencePiece model, which sacreBLEU downloads once."""
DOWNLOAD_TIMEOUT_S = 20


@lru_cache
def model_faults(tokenizer: str) -> tuple[Fault, ...]:
    """A model that is not on this machine and cannot be downloaded; one that can be is downloaded now.

    A process asks the network once, for all configurations of a plan.
    """
    return tuple(_model_faults(tokenizer)) if tokenizer in DOWNLOADED else ()


def _model_faults(tokenizer: str) -> Iterator[Fault]:
    from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
    from sacrebleu.utils import SACREBLEU_DIR, download_file

    address = SPM_MODELS[tokenizer]["url"]
    path = Path(SACREBLEU_DIR, "models", Path(address).name)
    if path.is_file() and path.stat().st_size:
        return
    try:
        with _impatient():
            download_file(address, str(path))
    except (Exception, SystemExit) as error:  # sacreBLEU exits on an error of SSL
        if path.is_file() and not path.stat().st_size:
            path.unlink()  # sacreBLEU would take it for the model
        found = f"is {tokenizer}, whose model cannot be fetched from {address}: {error or type(error).__name__}"
        yield Fault(KEY, found, f"without a network, copy the model to {path}; or use another tokenizer")


def check_tokenizer(tokenizer: str) -> None:
    """Raises FaultyError unless this machine can tokenize."""
    if faults := [*package_faults(tokenizer), *model_faults(tokenizer)]:
        raise FaultyError(*faults)


@contextmanager
def _impatient() -> Iterator[None]:
    """Inside this context, a server that does not answer ends a download soon."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
