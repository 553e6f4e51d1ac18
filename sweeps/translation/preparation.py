"""Parallel text, prepared once per sweep and checked against the models that will read it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sweeps.schema import Problem, RefusedError
from sweeps.task import Told
from transformer.config import TrialConfig


def prepare_text(configs: Sequence[TrialConfig], folder: Path, fingerprint: str, told: Told) -> None:
    """Prepare the text, and refuse models with too few positions for its sentences."""
    from transformer.data.lengths import check_lengths  # these import NumPy and SentencePiece
    from transformer.data.prepare import prepare

    data = configs[0].data
    prepared = prepare(data, folder, fingerprint, told)
    told("checking", None)
    prepared.check()
    models = {config.model.max_positions: config.model for config in configs}
    problems: list[Problem] = []
    for model in models.values():
        problems += check_lengths(prepared, model, data)
    if problems:
        raise RefusedError(dict.fromkeys(problems))


def known_vocabulary(folder: Path, fingerprint: str) -> str:
    """The SHA-256 of the vocabulary that was prepared below ``folder``; "" if there is none."""
    from transformer.data import here

    return here.known_vocabulary(folder, fingerprint)


def sample_texts(folder: Path, set_name: str) -> Mapping[str, Sequence[str]]:
    """Sources and references of a prepared set; {} for another one. Raises RefusedError if its files are damaged."""
    from transformer.data.prepare import Prepared

    prepared = Prepared(folder)
    if set_name not in prepared.evaluation_sets:
        return {}
    return {"source": prepared.sources(set_name), "reference": prepared.references(set_name)}
