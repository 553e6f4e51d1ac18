"""Prepared text on a worker's node: the planned text with the planned vocabulary, or a refusal."""

import socket
from pathlib import Path

from sweeps.processes.alive import alive
from sweeps.task import Problem, RefusedError
from transformer.config import DataConfig
from transformer.data.fingerprint import prepared_folder
from transformer.data.prepare import Prepared, prepare

ONE_VOCABULARY = "must be the sweep's prepared text; share that folder, or use one version of sentencepiece"


def prepare_here(data: DataConfig, folder: Path, planned: str, vocabulary_sha256: str) -> Prepared:
    """The planned corpus, prepared on this node if it is not there yet.

    Raises RefusedError if the text or the vocabulary (``vocabulary_sha256``; "" allows any) would differ.
    """
    prepared = _prepare_here(data, folder, planned)
    if vocabulary_sha256 not in ("", prepared.vocabulary_sha256):
        found = f"{socket.gethostname()} has a different vocabulary of the same text"
        raise RefusedError([Problem("paths.data", found, ONE_VOCABULARY, None, str(prepared.folder))])
    return prepared


def _prepare_here(data: DataConfig, folder: Path, planned: str) -> Prepared:
    target = prepared_folder(folder, planned)
    try:
        return prepare(data, folder, planned, lambda step, done: alive())
    except RefusedError as error:
        if target.is_dir():
            raise
        found = f"{socket.gethostname()} has no prepared text and cannot prepare it"
        allowed = "must be on storage that all nodes share, or every node needs the planned text"
        reasons = (f"{found}: {reason.key}: {reason.found}" for reason in error.problems)
        raise RefusedError(Problem("paths.data", reason, allowed, None, str(target)) for reason in reasons) from error


def known_vocabulary(folder: Path, data_fingerprint: str) -> str:
    """The SHA-256 of the vocabulary that was prepared under ``folder``; "" if there is none."""
    prepared = Prepared(prepared_folder(folder, data_fingerprint))
    return prepared.vocabulary_sha256 if prepared.folder.is_dir() else ""
