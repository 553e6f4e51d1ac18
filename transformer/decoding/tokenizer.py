"""The models that some of sacreBLEU's tokenizers need, and their download."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from transformer.bleu_tokenizer import KEY, package_faults
from transformer.faults import Fault, FaultyError

DOWNLOADED = ("flores101", "flores200", "spBLEU-1K")
"""The tokenizers that need a SentencePiece model, which sacreBLEU downloads once."""
DOWNLOAD_TIMEOUT_S = 20


@lru_cache
def model_faults(tokenizer: str) -> tuple[Fault, ...]:
    """Download the tokenizer's model if it isn't on this machine; a fault if that fails.

    A process asks the network once for all configurations of a plan.
    """
    return tuple(_download_faults(tokenizer)) if tokenizer in DOWNLOADED else ()


def _download_faults(tokenizer: str) -> Iterator[Fault]:
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
        reason = error or type(error).__name__
        problem = f"is {tokenizer}, whose model cannot be fetched from {address}: {reason}"
        fix = f"without a network, copy the model to {path}; or use another tokenizer"
        yield Fault(KEY, problem, fix)


def check_tokenizer(tokenizer: str) -> None:
    """Raises FaultyError unless this machine has the tokenizer's packages and model."""
    faults = [*package_faults(tokenizer), *model_faults(tokenizer)]
    if faults:
        raise FaultyError(*faults)


@contextmanager
def _impatient() -> Iterator[None]:
    """A context in which a download fails soon if the server does not answer."""
    default_timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(default_timeout)
