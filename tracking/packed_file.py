"""Statistics of a published study: one line per column of counts in place of one per sample, a
third of the size.

The first line is the head, with the number of samples as ``columns``. Each further line is a
column: ``{"column": "chrf", "place": 3, "minus": 0, "values": […]}`` is the fourth number of the
list ``chrf`` of each sample, less the first one. Without a ``place`` the field is a number, and
without ``minus`` the values are the numbers.
"""

import gzip
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracking.files import DamagedFileError, Lines

COLUMNS = "columns"
"""The key of a head whose samples are stored by columns; its value is their number."""
FARTHEST = 3
"""How many columns back a column is compared: counts of n-grams follow from those of the order
below."""
Sample = Mapping[str, Any]
Column = list[Any]


def zipped(text: str) -> bytes:
    """The same bytes at any time."""
    return gzip.compress(text.encode(), 9, mtime=0)


def packed_text(head: Sample, samples: Sequence[Sample]) -> str:
    """The lines of ``packed``, without spaces between values."""
    lines = packed(head, samples)
    return "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
    )


def packed(head: Sample, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """The lines of the packed file; those of the plain one if the samples do not have the same
    fields."""
    if not _are_alike(samples):
        return [dict(head), *map(dict, samples)]
    lines = [{**head, COLUMNS: len(samples)}]
    for name, value in samples[0].items():
        column = [sample[name] for sample in samples]
        if isinstance(value, list):
            lines += _packed_list(name, [list(numbers) for numbers in zip(*column, strict=True)])
        else:
            lines.append({"column": name, "values": column})
    return lines


def unpacked(lines: Lines) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The head and the samples of a file, packed or plain. Raises DamagedFileError."""
    head, *others = lines
    if COLUMNS not in head:
        return head, others
    try:
        samples = _samples(int(head.pop(COLUMNS)), others)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DamagedFileError(lines.path, f"has no whole columns: {error!r}") from None
    return head, samples


def sample_count(lines: Lines) -> int:
    """How many samples a file has, packed or plain. Raises DamagedFileError."""
    if not lines:
        return 0
    return int(lines[0].get(COLUMNS, len(lines) - 1))


def _samples(count: int, columns: Iterable[Sample]) -> list[dict[str, Any]]:
    samples: list[dict[str, Any]] = [{} for _ in range(count)]
    lists: dict[str, list[Column]] = {}
    for line in columns:
        name = line["column"]
        values = line["values"]
        if "place" not in line:
            for sample, value in zip(samples, values, strict=True):
                sample[name] = value
            continue
        before = lists.setdefault(name, [])
        if "minus" in line:
            less = before[line["minus"]]
            values = [value + other for value, other in zip(values, less, strict=True)]
        before.append(values)
        for sample, value in zip(samples, values, strict=True):
            sample.setdefault(name, []).append(value)
    return samples


def _packed_list(name: str, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Each column as it is, or less one of those before it, whichever has the fewest bits by its
    frequencies."""
    lines = []
    for place, column in enumerate(columns):
        as_it_is = {"column": name, "place": place, "values": column}
        shorter = [
            _less(as_it_is, columns, before) for before in range(max(0, place - FARTHEST), place)
        ]
        choices = [as_it_is, *filter(None, shorter)]
        lines.append(min(choices, key=lambda line: _bits(line["values"])))
    return lines


def _bits(column: Column) -> float:
    """What an ideal code for these values takes, rounded: the same on every machine."""
    counts = Counter(column).values()
    return round(sum(count * math.log2(len(column) / count) for count in counts), 3)


def _less(line: dict[str, Any], columns: Sequence[Column], before: int) -> dict[str, Any] | None:
    """The column less this one; None where that is not exact, since not all are whole numbers."""
    numbers = [*line["values"], *columns[before]]
    if not all(type(number) is int for number in numbers):
        return None
    differences = [
        value - less for value, less in zip(line["values"], columns[before], strict=True)
    ]
    return {**line, "minus": before, "values": differences}


def _are_alike(samples: Sequence[Sample]) -> bool:
    """Whether all samples have the same fields, with lists of the same length."""
    shapes = [
        {name: len(value) if isinstance(value, list) else None for name, value in sample.items()}
        for sample in samples
    ]
    return bool(shapes) and all(list(shape.items()) == list(shapes[0].items()) for shape in shapes)
