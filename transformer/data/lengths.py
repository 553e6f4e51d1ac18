"""Whether the position tables of a model are long enough for prepared text."""

from collections.abc import Iterator

from transformer.config import DataConfig, ModelConfig
from transformer.data.left_out import ADVISED, too_few_fit
from transformer.data.prepare import ParallelSet, Prepared
from transformer.data.text_file import ONE_SENTENCE
from transformer.faults import Fault


def check_lengths(prepared: Prepared, model: ModelConfig, data: DataConfig | None = None) -> list[Fault]:
    """Texts too long for the position tables: most of train, or any evaluated sentence, since none may be dropped.

    Lines are named by the files of ``data``.
    """
    train, most = prepared.pairs("train"), model.max_positions
    numbered = data if prepared.blank == 0 else None  # without blank pairs, the others have other numbers
    faults = list(too_few_fit(train.longest_sides, prepared.blank, most, _longest(train, "train", numbered)))
    for name in prepared.evaluation_sets:
        pairs = prepared.pairs(name)
        faults += _too_long(int(pairs.longest_sides.max()), _longest(pairs, name, data), name, most)
    return faults


def _too_long(longest: int, found: str, name: str, most: int) -> Iterator[Fault]:
    if longest > max(most, ADVISED):
        yield Fault(f"data.{name}", found, f"{ONE_SENTENCE} model.max_positions is {most}")
    elif longest > most:
        allowed = f"must be at least {longest}, the longest sentence of {name}"
        yield Fault("model.max_positions", f"is {most}; {found}", allowed)


def _longest(pairs: ParallelSet, name: str, data: DataConfig | None) -> str:
    """Where the longest sentence of a set is, and its length."""
    line, longest = int(pairs.longest_sides.argmax()), int(pairs.longest_sides.max())
    files = getattr(data, name, None) if data else None
    place = f"{files[int(pairs.target.lengths[line] == longest)]}:{line + 1}" if files else f"a sentence of {name}"
    return f"{place} has {longest} pieces"
